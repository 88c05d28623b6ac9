"""The confusion matrix, whose cells open the texts behind them, without any script.

A cell is a link to its texts, which are hidden unless they are the page's target.
"""

from lamatext.views.markup import (
    Html,
    details,
    join,
    many,
    name,
    per_cent,
    section,
    tag,
    text_item,
    texts_list,
)
from lamatext.views.report.collect import Findings
from lamatext.views.report.examples import WIDEST, Cell


def confusion(found: Findings) -> Html:
    """Which classes are taken for which."""
    title, counts = "What is taken for what", found.scores.confusion
    wrong = sum(map(sum, counts)) - sum(counts[i][i] for i in range(len(counts)))
    lead = (
        "Each row is a true class, each column what the model said: numbers on the diagonal are "
        f"right answers, all others mistakes. {_gist(found, wrong)}"
    )
    if len(found.labels) > WIDEST:
        lead = (
            "Which class is taken for which other, the commonest mistakes first. "
            f"{_gist(found, wrong)}"
        )
        return section("confusion", title, lead, tag("p", LEGEND, class_="note"), *_pairs(found))
    how = "Choose a number to read texts behind it, the surest first. "
    panels = tag("div", *(_panel(found, cell) for cell in sorted(found.chosen.cells)))
    return section("confusion", title, lead, _matrix(found),
                   tag("p", how, LEGEND, class_="note"), panels)  # fmt: skip


LEGEND = Html(
    'Words in <mark class="p3">blue</mark> speak for what the model said, words in '
    '<mark class="n3">orange</mark> (dotted) against it. The line below a text adds '
    "up the score of what the model said, measured against the mean of all classes."
)


def open_cells(found: Findings) -> str:
    """CSS that frames the cell whose texts are open."""
    if len(found.labels) > WIDEST:
        return ""
    chosen = [
        f':root:has(#{_anchor(cell)}:target) a[href="#{_anchor(cell)}"]'
        for cell in sorted(found.chosen.cells)
    ]
    return f"{', '.join(chosen)} {{ outline: 3px solid var(--ink); }}" if chosen else ""


def _gist(found: Findings, wrong: int) -> str:
    if not wrong:
        return "There is no mistake."
    counts = found.scores.confusion
    pairs = [(n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if i != j]
    n, i, j = max(pairs)
    return (
        f"Of {many(wrong, 'mistake')}, {per_cent(n / wrong, 0)} are “{found.labels[i]}” taken for "
        f"“{found.labels[j]}”."
    )


def _matrix(found: Findings) -> Html:
    labels, counts = found.labels, found.scores.confusion
    head = tag("tr", tag("th", "true ↓ said →", scope="col"),
               *(tag("th", name(label), scope="col") for label in labels))  # fmt: skip
    body = [
        tag("tr", tag("th", name(labels[i]), scope="row"),
            *(_cell(found, (i, j), n, sum(row)) for j, n in enumerate(row)))
        for i, row in enumerate(counts)
    ]  # fmt: skip
    grid = tag("table", tag("caption", "True and predicted classes"), tag("thead", head),
               tag("tbody", *body), class_="confusion")  # fmt: skip
    return tag("div", grid, class_="scroll")


def _cell(found: Findings, cell: Cell, count: int, of: int) -> Html:
    if not count:
        return tag("td", tag("span", "0", class_="none"))
    i, j = cell
    shade = min(int(5 * count / max(of, 1)) + 1, 5)
    kind = "hit" if i == j else "miss"
    told = f"{many(count, 'text')}: {found.labels[i]} taken for {found.labels[j]}; read them"
    link = tag("a", f"{count:,}", href=f"#{_anchor(cell)}", class_=f"{kind}{shade}",
               aria_label=told)  # fmt: skip
    return tag("td", link)


def _panel(found: Findings, cell: Cell) -> Html:
    i, j = cell
    rows, count = found.chosen.cells[cell], found.scores.confusion[i][j]
    what = "rightly called " if i == j else "taken for "
    shown = many(count, "text") if count == len(rows) else f"{len(rows)} of {count:,} texts"
    title = tag("h3", name(found.labels[i]), f" {what}", name(found.labels[j]), f": {shown}")
    close = tag("a", "close", href="#confusion", class_="close")
    return tag("div", tag("div", title, close, class_="panel-head"), _texts(found, rows),
               id=_anchor(cell), class_="panel", tabindex=-1)  # fmt: skip


def _pairs(found: Findings) -> list[Html]:
    folded = []
    for (i, j), rows in found.chosen.cells.items():
        count = found.scores.confusion[i][j]
        summary = join(
            [name(found.labels[i]), " taken for ", name(found.labels[j]), f": {count:,}"], ""
        )
        folded.append(details(summary, _texts(found, rows)))
    return folded


def _texts(found: Findings, rows: list[int]) -> Html:
    return texts_list(
        text_item(found.explanations[row], found.labels, int(found.truth[row])) for row in rows
    )


def _anchor(cell: Cell) -> str:
    return f"cell-{cell[0]}-{cell[1]}"
