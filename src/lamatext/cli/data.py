"""``lamatext data``: list the named datasets."""

import json
from dataclasses import asdict

from lamatext.cli import options, output
from lamatext.views.terminal_table import TerminalTable

NAME = "data"
EXAMPLES = "LAMATEXT_DATA=data lamatext data"


def run(as_json: options.Json = False, quiet: options.IsQuiet = False) -> None:
    """List the named datasets with their location, size, origin and license terms."""
    from lamatext.data.named_datasets import DATA_VARIABLE, list_datasets

    datasets = list_datasets()
    if as_json:
        print(json.dumps([asdict(dataset) for dataset in datasets]))
        return
    console = output.out()
    rows = [
        (
            dataset.entry.name,
            f"{dataset.counts.get('train', 0):,}" if dataset.counts else "-",
            f"{dataset.counts.get('test', 0):,}" if dataset.counts else "-",
            str(len(dataset.entry.classes)),
            dataset.entry.task,
            dataset.location or "not found",
        )
        for dataset in datasets
    ]
    columns = ("name", "train", "test", "classes", "task", "location")
    console.print(TerminalTable(columns, rows, texts=2))
    console.print("\nOrigin and license terms")
    for dataset in datasets:
        entry = dataset.entry
        sentences = ". ".join(text[:1].upper() + text[1:] for text in (entry.origin, entry.terms))
        console.print(f"  {entry.name}: {sentences}.", markup=False)
    console.print(f"\nSearched in ${DATA_VARIABLE}, then in installed packages, then on the Hub.")
    available = [dataset.entry.name for dataset in datasets if dataset.location]
    if available and not quiet:
        name = "rotten-tomatoes" if "rotten-tomatoes" in available else available[0]
        output.next_steps(
            output.command("train", name, "--out", output.unused_name(f"runs/{name}"))
        )
