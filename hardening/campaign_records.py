"""Records of hardening campaigns: one JSON list per campaign with seed, counts, machine, commit."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison import cpu_name
from lamatext.atomic_write import write_text
from lamatext.saved.format import versions
from paper.records import commit

RECORDS = Path(__file__).parent / "records"
# The field that names what a record of each campaign is about.
SUBJECTS = {"kills": "command", "disk": "scenario", "server": "attack"}

ABSOLUTE_PATH = re.compile(r"(?<![\w.])/(?:[\w.@+-]+/)+(?=[\w.@+-])")

Record = dict[str, Any]


def add_records(campaign: str, results: Sequence[object], folder: Path) -> Path:
    """Write the results of a campaign; a record of the same subject and seed is replaced."""
    records = {_key(campaign, record): record for record in read_records(campaign, folder)}
    origin = {"device": cpu_name(), "versions": versions(), "commit": commit()}
    for result in results:
        assert is_dataclass(result)
        assert not isinstance(result, type)
        record = {"experiment": campaign, **asdict(result), **origin}
        if "problems" in record:
            record["problems"] = [without_folders(problem) for problem in record["problems"]]
        records[_key(campaign, record)] = record
    lines = ",\n".join(json.dumps(record) for record in records.values())
    path = folder / f"{campaign}.json"
    write_text(path, f"[\n{lines}\n]\n")
    return path


def without_folders(message: str) -> str:
    """Shorten the absolute paths in a message to file names: folders belong to one machine."""
    return ABSOLUTE_PATH.sub("", message)


def read_records(campaign: str, folder: Path = RECORDS) -> list[Record]:
    """Read the records of a campaign; none if it has not been run."""
    path = folder / f"{campaign}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def subject_of(campaign: str, record: Mapping[str, Any]) -> str:
    """Return what a campaign's record is about: a command, a scenario, an attack or a target."""
    return str(record[SUBJECTS.get(campaign, "target")])


def _key(campaign: str, record: Mapping[str, Any]) -> tuple[str, int, str, str]:
    how = record.get("engine", ""), record.get("sanitizers", "")
    return subject_of(campaign, record), record["seed"], *how
