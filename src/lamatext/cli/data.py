"""``lamatext data``: the known data sets."""

import json
from dataclasses import asdict

from lamatext.cli import options, output

NAME = "data"
EXAMPLE = "Example: LAMATEXT_DATA=data lamatext data"


def run(as_json: options.Json = False, quiet: options.IsQuiet = False) -> None:
    """The named data sets: where each was found, counts and terms."""
    from lamatext.data.datasets.locations import VARIABLE, describe

    found = describe()
    if as_json:
        print(json.dumps([asdict(finding) for finding in found]))
        return
    console = output.out()
    rows = [
        (
            finding.known.name,
            f"{finding.counts.get('train', 0):,}" if finding.counts else "-",
            f"{finding.counts.get('test', 0):,}" if finding.counts else "-",
            str(len(finding.known.classes)),
            finding.known.task,
            finding.where or "not here",
        )
        for finding in found
    ]
    shown = output.table(("name", "train", "test", "classes", "task", "where"), rows)
    for column in shown.columns[4:]:
        column.justify, column.no_wrap = "left", False
    console.print(shown)
    console.print("\nOrigin and terms")
    for finding in found:
        known = finding.known
        stand_in = f" Stands in for {known.stands_for}." if known.stands_for else ""
        line = f"  {known.name}: {known.origin}. {known.terms}.{stand_in}"
        console.print(line, markup=False)
    console.print(f"\nSets are looked for in ${VARIABLE}, then in packages, then on the Hub.")
    if not quiet:
        output.next_steps("lamatext train rotten-tomatoes --out runs/demo")
