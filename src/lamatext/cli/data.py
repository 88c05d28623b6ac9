"""``lamatext data``: list the named data sets."""

import json
from dataclasses import asdict

from lamatext.cli import options, output

NAME = "data"
EXAMPLE = "Example: LAMATEXT_DATA=data lamatext data"


def run(as_json: options.Json = False, quiet: options.IsQuiet = False) -> None:
    """List the named data sets: where each one is, its sizes, origin and license terms."""
    from lamatext.data.datasets.locations import VARIABLE, describe

    datasets = describe()
    if as_json:
        print(json.dumps([asdict(dataset) for dataset in datasets]))
        return
    console = output.out()
    rows = [
        (
            dataset.known.name,
            f"{dataset.counts.get('train', 0):,}" if dataset.counts else "-",
            f"{dataset.counts.get('test', 0):,}" if dataset.counts else "-",
            str(len(dataset.known.classes)),
            dataset.known.task,
            dataset.where or "not found",
        )
        for dataset in datasets
    ]
    table = output.table(("name", "train", "test", "classes", "task", "location"), rows)
    for column in table.columns[4:]:
        column.justify, column.no_wrap = "left", False
    console.print(table)
    console.print("\nOrigin and terms")
    for dataset in datasets:
        known = dataset.known
        stand_in = f" Stands in for {known.stands_for}." if known.stands_for else ""
        console.print(f"  {known.name}: {known.origin}. {known.terms}.{stand_in}", markup=False)
    console.print(f"\nSearched in ${VARIABLE}, then in installed packages, then on the Hub.")
    available = [dataset.known.name for dataset in datasets if dataset.where]
    if available and not quiet:
        name = "rotten-tomatoes" if "rotten-tomatoes" in available else available[0]
        output.next_steps(output.command("train", name, "--out", f"runs/{name}"))
