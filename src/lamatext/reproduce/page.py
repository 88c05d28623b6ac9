"""``results/README.md``: every table and figure, and what they show, in words.

Whatever figure stands in a sentence is looked up in the records.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lamatext.files import write_text
from lamatext.reproduce import accuracy_tables, tables
from lamatext.reproduce.accuracy_tables import scores
from lamatext.reproduce.figures import FIGURES, draw
from lamatext.reproduce.protocol import ABLATIONS
from lamatext.reproduce.published import accuracy as published
from lamatext.reproduce.records import Results
from lamatext.reproduce.tables import NONE, share
from lamatext.reproduce.words import SECTIONS

ALT = {
    "runtime": "Seconds an epoch of LE and TE by length of text",
    "params-vs-accuracy": "Accuracy on test against trainable parameters",
    "word-weights": "Distribution of the attention weights of seven words by stars",
    "heads": "Validation accuracy over epochs by number of heads",
}


def write_page(results: Results) -> Path:
    """Draw the figures and write the page beside the records."""
    drawn = {name: draw(results, name, results.folder / "figures") for name in FIGURES}
    parts = {name: table(results) for name, table in _TABLES.items()}
    for name, paths in drawn.items():
        here = paths[0].relative_to(results.folder).as_posix() if paths else ""
        parts[f"figure-{name}"] = f"![{ALT[name]}]({here})" if paths else "*No records yet.*"
    values: dict[str, object] = {**parts, **_figures(results)}
    text = "\n\n".join(section.strip().format_map(values) for section in SECTIONS)
    path = results.folder / "README.md"
    write_text(path, text + "\n")
    return path


_TABLES = {
    "datasets": tables.datasets_table,
    "complexity": tables.complexity_table,
    "accuracy": accuracy_tables.accuracy_table,
    "beside": accuracy_tables.beside_paper_table,
    "intervals": accuracy_tables.intervals_table,
    "parameters": tables.parameters_table,
    "runtime": tables.runtime_table,
    "keywords": tables.keywords_table,
    "heads": accuracy_tables.heads_table,
    "ablation": accuracy_tables.ablation_table,
    "probes": accuracy_tables.probes_table,
}


class _Lookup:
    """A figure by ``ROW,COLUMN``, for the sentences."""

    def __init__(self, find: Callable[[str, str], str]) -> None:
        self._find = find

    def __getitem__(self, place: str) -> str:
        row, _, column = place.partition(",")
        return self._find(row, column)


def _figures(results: Results) -> dict[str, object]:
    """What a sentence may name: ``ours``, ``paper`` and ``changed``."""

    def ours(model: str, dataset: str) -> str:
        values = [record.number for record in scores(results, dataset, model)]
        return share(float(np.mean(values))) if values else NONE

    def changed(name: str, dataset: str) -> str:
        values = [
            record.number
            for record in results.of("ablation")
            if (record.dataset, record.metric) == (dataset, "accuracy")
            and dict(record.config) == dict(ABLATIONS[name])
        ]
        return share(float(np.mean(values))) if values else NONE

    return {
        "ours": _Lookup(ours),
        "paper": _Lookup(lambda model, dataset: share(published(model, dataset))),
        "changed": _Lookup(changed),
    }
