"""Fill the generated tables of the documentation from the records of the benchmarks.

python -m docs.make_tables
"""

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.__main__ import BENCHMARKS, RECORDS
from benchmarks.estimates import STREAMED, estimates_table
from benchmarks.flipped_labels import flipped_labels_table
from benchmarks.growth import exponent_table, growth_table, stage_table
from benchmarks.small_data import (
    few_texts_table,
    imbalance_table,
    small_data_table,
    wrong_labels_table,
)
from benchmarks.tuning import tuning_table
from paper.records import Records

NAMES = ("train.md", "performance.md", "production.md", "clean.md", "scale.md", "compare.md")
PAGES = [Path(__file__).parent / name for name in NAMES]


def fill_tables(page: str) -> str:
    """Return a page of the documentation with its tables generated anew from the records."""
    files = {name: RECORDS / f"{name}.json" for name in BENCHMARKS}
    records = {name: json.loads(path.read_text()) for name, path in files.items() if path.is_file()}
    growth = Records(RECORDS).of("growth")
    steps = {record["metric"]: record["details"] for record in records["training_step"]}
    tables = {
        "results": results_table(records),
        "parts": parts_table(steps),
        "flipped_labels": flipped_labels_table(Records(RECORDS)),
        "small_data": small_data_table(Records(RECORDS)),
        "few_texts": few_texts_table(Records(RECORDS)),
        "imbalance": imbalance_table(Records(RECORDS)),
        "wrong_labels": wrong_labels_table(Records(RECORDS)),
        "workers": workers_table(records["serving_workers"]),
        "estimates": estimates_table(RECORDS),
        "streaming": streaming_table(Records(RECORDS)),
        "tuning": tuning_table(RECORDS),
        "growth": growth_table(growth),
        "growth_stages": stage_table(growth),
        "growth_exponents": exponent_table(growth),
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


def results_table(records: dict[str, list[dict[str, Any]]]) -> str:
    """Return the table of every ratio that has a target, and of the throughput ratios."""
    lines = [
        "| benchmark | metric | ratio | quartiles | target | ours | baseline |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| `{name}` | {record['metric']} | {record['value']:.2f} "
        f"| {record['low']:.2f}–{record['high']:.2f} | {record['target'] or ''} "
        f"| {_number(record['ours'])} {record['unit']} "
        f"| {_number(record['baseline'])} {record['unit']} |"
        for name, entries in records.items()
        for record in entries
        if record["target"] or name in ("throughput", "latency")
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def parts_table(steps: dict[str, Any]) -> str:
    """Return the table of the milliseconds of a training step by part, before and now."""
    columns = [
        (f"{title}, {moment}", steps[metric][f"parts_{moment}"])
        for metric, title in (("step, r8", "R8"), ("step, imdb", "IMDB"))
        for moment in ("before", "now")
    ]
    lines = [f"| part | {' | '.join(title for title, _ in columns)} |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| {part} | {' | '.join(f'{parts[part]:.1f}' for _, parts in columns)} |"
        for part in columns[0][1]
    ]
    totals = " | ".join(f"{sum(parts.values()):.1f}" for _, parts in columns)
    return "\n".join((*lines, f"| total | {totals} |"))


def streaming_table(records: Records) -> str:
    """Return the table of peak memory and processor time of training on streamed texts."""
    found = {r.metric: r.number for r in records.of("streaming") if r.dataset == STREAMED}
    stages = {
        "all rows: tokens, vocabulary, word vectors": ("vocabulary", "vocabulary"),
        "the first 5 % of an epoch": ("epoch", "epoch_part"),
        "all rows: n-grams": ("ngrams", "ngrams"),
    }
    lines = ["| stage | peak memory | processor time |", "|---|--:|--:|"]
    for title, (memory, time) in stages.items():
        peak, seconds = found[f"{memory}_megabytes"], found[f"{time}_cpu_seconds"]
        lines.append(f"| {title} | {peak:,.0f} MB | {seconds:,.0f} s |")
    computed = found["epoch_cpu_seconds_computed"]
    return "\n".join((*lines, f"| a whole epoch, computed | | {computed:,.0f} s |"))


def workers_table(records: list[dict[str, Any]]) -> str:
    """Return the table of the server's throughput by number of workers and length of the texts."""
    lines = [
        "| workers, words per text | texts/s | with 1 worker | ratio | quartiles |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {record['metric'].replace(' workers, 1 worker', '')} | {_number(record['ours'])} "
        f"| {_number(record['baseline'])} | {record['value']:.2f} "
        f"| {record['low']:.2f}–{record['high']:.2f} |"
        for record in records
    ]
    return "\n".join([*lines, "", f"Measured on: {records[0]['device']}; the load generators too."])


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(fill_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
