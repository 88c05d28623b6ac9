"""Markdown helpers: tables, number formats, and the blocks of a page between markers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from re import DOTALL, escape, findall, sub

from lamatext.atomic_write import write_text
from lamatext.baselines import BASELINES
from lamatext.errors import DataError
from paper.published_results import DATASETS, SYSTEMS

MISSING = "–"  # a cell without a record


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1
) -> str:
    """Format a Markdown table; the first ``text_columns`` are left-aligned, the others right."""
    marks = f"|{'---|' * text_columns}{'---:|' * (len(header) - text_columns)}"
    lines = [f"| {' | '.join(header)} |", marks]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def system_title(model: str) -> str:
    """Return a system's name as the tables' row titles show it."""
    return BASELINES[model][0] if model in BASELINES else SYSTEMS[model]


def dataset_heading(dataset: str) -> str:
    """Return a data set's column heading, with the paper's data set that it replaces."""
    paper_name, is_substitute = DATASETS[dataset]
    renamed = is_substitute and paper_name != "News"
    return f"{dataset} (for {paper_name})" if renamed else dataset


def three_digits(accuracy: float | None) -> str:
    """Format an accuracy as the paper prints it: ``.973``."""
    return MISSING if accuracy is None else f"{accuracy:.3f}".removeprefix("0")


def begin_marker(name: str) -> str:
    """Return the comment that starts the generated block ``name`` of a Markdown page."""
    return f"<!-- begin: {name} -->"


END_MARKER = "<!-- end -->"


def read_blocks(page: str) -> dict[str, str]:
    """Return the text between the markers of a Markdown page, by block name."""
    return dict(findall(rf"<!-- begin: ([\w-]+) -->\n(.*?)\n{END_MARKER}", page, DOTALL))


def fill_blocks(path: Path, blocks: Mapping[str, str]) -> None:
    """Replace the text between the markers of a Markdown page; the rest stays as written."""
    page = path.read_text(encoding="utf-8")
    known = read_blocks(page)
    for name, text in blocks.items():
        if name not in known:
            raise DataError(f"{path}: no block between {begin_marker(name)} and {END_MARKER}.")
        pattern = rf"({escape(begin_marker(name))}\n).*?(\n{END_MARKER})"
        new = text.replace("\\", r"\\")
        page = sub(pattern, rf"\g<1>{new}\g<2>", page, flags=DOTALL)
    write_text(path, page)
