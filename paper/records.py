"""Measurement records: one JSON list per experiment, stored next to the code that measures it."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from lamatext.atomic_write import write_text
from lamatext.errors import DataError
from lamatext.saved.format import versions

Value = float | list[float] | list[str] | dict[str, float]
Key = tuple[str, str, str, str, int | None, int | None, str]
QUICK_SETTINGS = ("training.epochs", "texts")  # changed by --quick in every run
PAPER_RECORDS = Path(__file__).parent / "records"


@dataclass(frozen=True, slots=True)
class Record:
    """One measured value with everything needed to measure it again."""

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
    config: Mapping[str, object] = field(default_factory=dict)  # settings that differ

    @property
    def key(self) -> Key:
        """The identity of the record: two records with one key are the same measurement."""
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
    def changed_settings(self) -> dict[str, object]:
        """The record's settings that differ from the recipe, without those of ``--quick``."""
        return {key: value for key, value in self.config.items() if key not in QUICK_SETTINGS}

    @property
    def number(self) -> float:
        """The record's value as a number; a list or dict raises DataError."""
        if not isinstance(self.value, int | float):
            raise DataError(
                f"{self.experiment}.json: the {self.metric} of {self.model} on {self.dataset} is "
                f"a {type(self.value).__name__}, not a number."
            )
        return float(self.value)

    def with_provenance(self) -> "Record":
        """Return the record with the current library versions and commit."""
        return replace(self, versions=versions(), commit=commit())


class Records:
    """The records in a folder, one JSON file per experiment.

    An existing record is never computed again unless ``force`` is set: then ``has`` reports only
    the records added through this object, and ``add`` replaces old ones.
    """

    def __init__(self, folder: Path, *, force: bool = False) -> None:
        self.folder = folder
        self._force = force
        self._added: set[Key] = set()
        self._by_experiment: dict[str, dict[Key, Record]] = {}

    def of(self, experiment: str) -> list[Record]:
        """Return all records of an experiment, in the order they were measured."""
        return list(self._read(experiment).values())

    def has(self, key: Key) -> bool:
        """Return whether a record with this key exists."""
        return key in (self._added if self._force else self._read(key[0]))

    def add(self, records: Iterable[Record]) -> None:
        """Write new records to their experiment's file; a record that exists stays unchanged."""
        changed: dict[str, dict[Key, Record]] = {}
        for record in records:
            if not self.has(record.key):
                self._read(record.experiment)[record.key] = record
                self._added.add(record.key)
                changed[record.experiment] = self._read(record.experiment)
        for experiment, known in changed.items():
            lines = ",\n".join(json.dumps(asdict(record)) for record in known.values())
            write_text(self.folder / f"{experiment}.json", f"[\n{lines}\n]\n")

    def _read(self, experiment: str) -> dict[Key, Record]:
        if experiment not in self._by_experiment:
            path = self.folder / f"{experiment}.json"
            entries = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
            try:
                records = [Record(**entry) for entry in entries]
            except TypeError as error:
                raise DataError(f"{path}: not a list of records: {error}.") from error
            self._by_experiment[experiment] = {record.key: record for record in records}
        return self._by_experiment[experiment]


@cache
def commit() -> str:
    """Return the git commit of the source tree, to be stored in records.

    ``$LAMATEXT_COMMIT`` overrides it, for a copy without git; empty if neither is available.
    """
    if override := os.environ.get("LAMATEXT_COMMIT"):
        return override
    try:
        result = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()
