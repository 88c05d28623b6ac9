"""What was measured: ``results/NAME.json``, a list of records that is only ever added to."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lamatext.atomic_write import write_text
from lamatext.errors import DataError
from lamatext.provenance import commit, versions

Value = float | list[float] | list[str] | dict[str, float]
Key = tuple[str, str, str, str, int | None, int | None, str]
QUICK = ("training.epochs", "texts")  # what a quick look changes, beside what it looks at


@dataclass(frozen=True, slots=True)
class Record:
    """One figure, and all that is needed to get it again."""

    experiment: str
    dataset: str
    model: str
    metric: str
    value: Value
    seed: int | None = None
    fold: int | None = None
    paper: float | None = None  # the published value
    seconds: float = 0.0
    parameters: int | None = None
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    config: Mapping[str, object] = field(default_factory=dict)  # what differs from the recipe

    @property
    def key(self) -> Key:
        """Two records of one key are the same measurement."""
        return (
            self.experiment,
            self.dataset,
            self.model,
            self.metric,
            self.seed,
            self.fold,
            json.dumps(dict(self.config), sort_keys=True),
        )

    @property
    def changed(self) -> dict[str, object]:
        """The settings that differ from the recipe, whether this is a quick look or not."""
        return {key: value for key, value in self.config.items() if key not in QUICK}

    @property
    def number(self) -> float:
        """The value, where it is one number."""
        if not isinstance(self.value, int | float):
            raise DataError(f"the {self.metric} of {self.model} on {self.dataset} is no number.")
        return float(self.value)


class Results:
    """The records of a folder, one file an experiment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, dict[Key, Record]] = {}

    def of(self, experiment: str) -> list[Record]:
        """All records of an experiment, in the order they were made."""
        return list(self._read(experiment).values())

    def has(self, key: Key) -> bool:
        """Whether this was measured before."""
        return key in self._read(key[0])

    def add(self, records: Iterable[Record]) -> None:
        """Write records at once; what was measured before stays as it was."""
        changed: dict[str, dict[Key, Record]] = {}
        for record in records:
            known = self._read(record.experiment)
            if known.setdefault(record.key, record) is record:
                changed[record.experiment] = known
        for experiment, known in changed.items():
            lines = ",\n".join(json.dumps(asdict(record)) for record in known.values())
            write_text(self._path(experiment), f"[\n{lines}\n]\n")

    def _path(self, experiment: str) -> Path:
        return self.folder / f"{experiment}.json"

    def _read(self, experiment: str) -> dict[Key, Record]:
        if experiment not in self._known:
            path = self._path(experiment)
            found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
            try:
                records = [Record(**entry) for entry in found]
            except TypeError as error:
                raise DataError(f"{path}: not a list of records: {error}.") from error
            self._known[experiment] = {record.key: record for record in records}
        return self._known[experiment]


def blank(
    experiment: str,
    dataset: str,
    model: str,
    metric: str,
    config: Mapping[str, object] | None = None,
    *,
    device: str = "CPU",
) -> Record:
    """A record that waits for its value."""
    return Record(
        experiment=experiment,
        dataset=dataset,
        model=model,
        metric=metric,
        value=0.0,
        device=device,
        versions=versions(),
        commit=commit(),
        config=dict(config or {}),
    )
