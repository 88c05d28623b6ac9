"""The results tables of docs/reliability.md, generated from the records of the campaigns."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hardening.campaign_records import RECORDS, Record, read_records, subject_of
from hardening.fuzz_target import CAMPAIGNS

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
NO_RECORDS = "No records yet."


def fill_tables(page: str, folder: Path = RECORDS) -> str:
    """Return the page of reliability with its tables generated anew from the records."""
    tables = {
        "fuzzing": fuzzing_table(folder),
        "kills": kills_table(folder),
        "disk": disk_table(folder),
        "server": server_table(folder),
    }
    for name, table in tables.items():
        block = f"<!-- begin: {name} -->\n{table}\n<!-- end: {name} -->"
        page = re.sub(
            rf"<!-- begin: {name} -->.*<!-- end: {name} -->",
            lambda _, block=block: block,  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
    return page


def fuzzing_table(folder: Path) -> str:
    """Return the table of fuzz inputs by target, with the total of all targets."""
    rows, total = [], [0, 0, 0, 0]
    for campaign in CAMPAIGNS:
        for record in read_records(campaign, folder):
            counts = [record[key] for key in ("inputs", "accepted", "rejected", "findings")]
            total = [a + b for a, b in zip(total, counts, strict=True)]
            engine = record["engine"] + (", sanitizers" if record.get("sanitizers") else "")
            columns = [f"`{campaign}`", f"`{record['target']}`", engine]
            rows.append([*columns, *(f"{count:,}" for count in counts), *_origin(record)])
    if rows:
        rows.append(["", "total", "", *(f"{count:,}" for count in total), "", ""])
    titles = ("campaign", "target", "engine", "inputs", "accepted", "named error", "findings")
    return _table((*titles, "seed", "commit"), rows)


def kills_table(folder: Path) -> str:
    """Return the table of kills by command."""
    rows = [
        [
            f"`lamatext {record['command']}`",
            f"{record['run_seconds']} s",
            f"{record['cpu_seconds']} s" if record.get("cpu_seconds") else "",
            str(record["kills"]),
            str(record["after_checkpoint"]) if record["command"] == "train" else "",
            str(record["second_kills"]) if record["command"] == "train" else "",
            str(len(record["problems"])),
            *_origin(record),
        ]
        for record in read_records("kills", folder)
    ]
    titles = (
        "command",
        "duration",
        "CPU time",
        "kills",
        "after a checkpoint",
        "killed again",
        "problems",
    )
    table = _table((*titles, "seed", "commit"), rows)
    records = [record for record in read_records("kills", folder) if record["by_stage"]]
    stages = [_stages(f"seed {record['seed']}", record["by_stage"]) for record in records]
    total = sum((Counter(record["by_stage"]) for record in records), Counter[str]())
    return "\n\n".join([table, *stages, *([_stages("all", total)] if len(records) > 1 else [])])


def _stages(which: str, by_stage: Mapping[str, int]) -> str:
    counts = ", ".join(f"{stage} {count}" for stage, count in sorted(by_stage.items()))
    return f"Kills by the stage of training ({which}): {counts}."


def disk_table(folder: Path) -> str:
    """Return the table of disk faults by scenario."""
    rows = [
        [
            subject_of("disk", record),
            record["skipped"] or str(record["rounds"]),
            str(record["effective"]),
            str(len(record["problems"])),
            *_origin(record),
        ]
        for record in read_records("disk", folder)
    ]
    return _table(("scenario", "rounds", "with effect", "problems", "seed", "commit"), rows)


def server_table(folder: Path) -> str:
    """Return the table of attacks on the server with the polite client's latencies."""
    rows = [
        [
            record["attack"],
            f"{record['rounds']} × {record['seconds']:g} s".removeprefix("1 × "),
            f"{record['requests']:,}",
            str(record["failures"]),
            f"{record['p99_ms']:.1f} ms",
            f"{record['p99_control_ms']:.1f} ms" if record["p99_control_ms"] else "",
            f"{record['growth_mb']:.0f} MB",
            str(len(record["problems"])),
            *_origin(record),
        ]
        for record in read_records("server", folder)
    ]
    titles = ("attack", "duration", "requests", "failed", "p99", "p99, control", "memory growth")
    return _table((*titles, "problems", "seed", "commit"), rows)


def _origin(record: Record) -> list[str]:
    return [str(record["seed"]), record["commit"]]


def _table(titles: tuple[str, ...], rows: list[list[str]]) -> str:
    if not rows:
        return NO_RECORDS
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
