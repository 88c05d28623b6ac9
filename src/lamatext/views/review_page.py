"""Review page for suspect labels: keep, relabel or remove each text, download corrected data.

The page is one self-contained HTML file that sends no requests. If the data is small enough, the
page contains the whole table, so that the corrected data can be downloaded from it.
"""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lamatext.atomic_write import write_text
from lamatext.data.dataset import Dataset
from lamatext.data.read_options import ReadOptions, source_title
from lamatext.data.sources import open_table
from lamatext.data.suspects_file import COLUMNS
from lamatext.errors import plural
from lamatext.suspect_labels import Suspect, SuspectSearch
from lamatext.views.html_templates import SHARED_STYLE, render_page, script_json
from lamatext.views.word_shading import contribution_strength, segments

MAX_CARDS = 1000
MAX_CHARACTERS = 20_000_000  # of the data that the page holds
FAINTEST = 0.08  # weaker words are not shaded

Row = Mapping[str, object]


def write_review_page(
    search: SuspectSearch, dataset: Dataset, rows: Sequence[Row], options: ReadOptions, out: Path
) -> None:
    """Write an HTML page for reviewing suspect labels by hand.

    Args:
        search: the suspects.
        dataset: the data in which they were found.
        rows: the rows of the file of suspects, in the same order.
        options: how the data was read.
        out: the HTML file.
    """
    shown = list(zip(search.suspects, rows, strict=True))[:MAX_CARDS]
    table = whole_table(dataset, options)
    data = {
        "source": dataset.source,
        "classes": list(search.classes),
        "columns": list(COLUMNS),
        "suspects": [[row[name] for name in COLUMNS] for _, row in shown],
        "table": table,
    }
    page = render_page(
        "review_page.html",
        styles=(SHARED_STYLE, "review_page.css"),
        script="review_page.js",
        title=f"Suspect labels of {source_title(dataset.source)}",
        subtitle=_subtitle(search, len(shown)),
        data=Markup(script_json(data)),
        cards=[_card(suspect, row) for suspect, row in shown],
        used_labels=sorted({label for s, _ in shown for label in (s.label, s.suggestion)}),
        has_table=table is not None,
        separator=dataset.layout.separator,
        limit=f"{MAX_CHARACTERS // 1_000_000} MB",
    )
    write_text(out, page)


def _subtitle(search: SuspectSearch, shown: int) -> str:
    found = f"{plural(len(search.suspects), 'suspect')} among {plural(search.texts, 'text')}"
    if shown < len(search.suspects):
        return f"The first {shown:,} of {found}; the list of suspects has the others."
    return f"{found}, the most suspect first."


def whole_table(dataset: Dataset, options: ReadOptions) -> dict[str, Any] | None:
    """Return all rows of the data file for the review page, or None if the file is too large.

    Data from stdin cannot be read again, so only its texts and labels are returned.
    """
    layout, size = dataset.layout, 0
    lines: list[int] = []
    cells: list[list[str | None]] = []
    columns: list[str] = []
    for names, values, numbers in _source_batches(dataset, options):
        columns = names
        for row in values:
            size += sum(len(cell or "") for cell in row)
            cells.append(row)
        lines += numbers
        if size > MAX_CHARACTERS:
            return None
    label = layout.label_columns[0]
    return {
        "columns": columns,
        "header": layout.header,
        "separator": layout.separator or ",",
        "quote": layout.quote or '"',
        "encoding": _download_encoding(dataset),
        "label": columns.index(label),
        "lines": lines,
        "rows": cells,
    }


def _download_encoding(dataset: Dataset) -> str:
    """Return the text encoding of the corrected file that the review page offers for download.

    ``utf-8-sig`` is UTF-8 with a byte order mark, which spreadsheets need.
    """
    path, encoding = Path(dataset.source), dataset.layout.encoding
    if dataset.layout.separator is None:
        return "utf-8"
    if encoding == "utf-8" and path.is_file():
        with path.open("rb") as file:
            return "utf-8-sig" if file.read(3) == codecs.BOM_UTF8 else "utf-8"
    return encoding


def _source_batches(
    dataset: Dataset, options: ReadOptions
) -> Iterator[tuple[list[str], list[list[str | None]], list[int]]]:
    """Yield column names, rows and line numbers of the data file for the review page."""
    if dataset.source == "-":
        texts, labels = dataset.texts.to_pylist(), dataset.require_labels().to_pylist()
        names = [dataset.layout.text_columns[0], dataset.layout.label_columns[0]]
        cells = [list(row) for row in zip(texts, labels, strict=True)]
        yield names, cells, dataset.row_numbers.tolist()
        return
    for batch, numbers in open_table(dataset.source, options).numbered_batches():
        columns = [column.to_pylist() for column in batch.columns]
        yield (
            batch.schema.names,
            [list(row) for row in zip(*columns, strict=True)],
            numbers.tolist(),
        )


def _card(suspect: Suspect, row: Row) -> dict[str, object]:
    explanation = suspect.explanation
    strength = contribution_strength(explanation, 1).tolist()
    return {
        "row": row["row"],
        "label": suspect.label,
        "suggestion": suspect.suggestion,
        "is_label_suspect": suspect.is_label_suspect,
        "bars": [
            (name, chance)
            for name, chance in (
                (suspect.suggestion, suspect.suggestion_probability),
                (suspect.label, suspect.label_probability),
            )
            if chance is not None
        ],
        "reason": row["reason"],
        "supporting": suspect.supporting_words,
        "words": [
            (characters, "", 0.0)
            if t is None or abs(strength[t]) < FAINTEST
            else (characters, "n" if strength[t] < 0 else "p", abs(strength[t]))
            for t, characters in segments(explanation.text, explanation.spans)
        ],
    }
