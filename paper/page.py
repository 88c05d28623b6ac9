"""``results/README.md``: every table and figure, and what they show, in words.

Whatever figure stands in a sentence is computed from the records.
"""

import textwrap
from collections.abc import Callable
from pathlib import Path

from lamatext.atomic_write import write_text
from paper import accuracy_tables, findings, said, tables, word_weights
from paper.figures import FIGURES, draw
from paper.records import Results
from paper.words import QUICK, SECTIONS

ALT = {
    "runtime": "Seconds an epoch of LE and TE by length of text",
    "params-vs-accuracy": "Accuracy on test against trainable parameters",
    "word-weights": "Attention weights of six words by stars",
    "heads": "Validation accuracy over epochs by number of heads",
}
TABLES: dict[str, Callable[[Results], str]] = {
    "accuracy": accuracy_tables.accuracy_table,
    "beside": accuracy_tables.beside_paper_table,
    "intervals": accuracy_tables.intervals_table,
    "picks": findings.picks_table,
    "probes": accuracy_tables.probes_table,
    "heads": accuracy_tables.heads_table,
    "ablation": accuracy_tables.ablation_table,
    "parameters": tables.parameters_table,
    "complexity": tables.complexity_table,
    "runtime": tables.runtime_table,
    "keywords": tables.keywords_table,
    "weights": word_weights.weights_table,
    "datasets": tables.datasets_table,
}
AS_IT_IS = ("|", "#", "![")  # how blocks begin that are not wrapped


def write_page(results: Results, *, quick: bool = False) -> Path:
    """Draw the figures and write the page beside the records."""
    figures = {name: bool(draw(results, name, results.folder / "figures")) for name in FIGURES}
    path = results.folder / "README.md"
    write_text(path, page(results, figures, quick=quick))
    return path


def page(results: Results, figures: dict[str, bool], *, quick: bool = False) -> str:
    """The text; ``figures`` says of each whether there is one to show."""
    parts = {name: table(results) for name, table in TABLES.items()}
    for name, drawn in figures.items():
        shown = f"![{ALT[name]}](figures/{name}.png)"
        parts[f"figure-{name}"] = shown if drawn else "*No records yet.*"
    if quick:
        blocks = [QUICK.strip(), *parts.values()]
    else:
        values = {**parts, **said.values(results)}
        blocks = [wrapped(section.strip().format_map(values)) for section in SECTIONS]
    return "\n\n".join(blocks) + "\n"


def wrapped(text: str, width: int = 100) -> str:
    """Paragraphs and lists at one width; tables, headings and figures as they are."""
    return "\n\n".join(
        block if block.startswith(AS_IT_IS) else _wrapped(block, width)
        for block in text.split("\n\n")
    )


def _wrapped(block: str, width: int) -> str:
    lines = block.split("\n- ") if block.startswith("- ") else [block]
    first, *others = lines
    items = [first, *(f"- {line}" for line in others)]
    hang = "  " if block.startswith("- ") else ""
    return "\n".join(
        textwrap.fill(
            item,
            width,
            subsequent_indent=hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
    )
