"""Pieces of HTML. What is not ``Html`` is text, and is escaped."""

import math
from collections.abc import Iterable, Sequence

from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation
from lamatext.views.formatting import contribution_scale, escaped, excerpt, segments, share, summed

WORDS = 70  # of a text that are shown; a longer one is shown around its strongest words
FAINTEST = 0.2  # of the full strength; a weaker word stays as it is


class Html(str):
    """Markup that is safe as it stands."""

    __slots__ = ()


def html(value: object) -> Html:
    """Markup as it is, anything else escaped."""
    return value if isinstance(value, Html) else Html(escaped(value))


def join(pieces: Iterable[object], between: str = "\n") -> Html:
    """The pieces in a row."""
    return Html(between.join(html(piece) for piece in pieces))


def tag(name: str, *content: object, **attributes: object) -> Html:
    """An element; ``class_`` and ``aria_label`` stand for class and aria-label."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{join(content, '')}</{name}>")


def name(label: object) -> Html:
    """A class's name, of whatever script."""
    return tag("bdi", label)


def section(anchor: str, title: str, lead: object, *body: object) -> Html:
    """A part of the page: its first sentence says what it shows and what is good or bad."""
    content = (tag("h2", title), tag("p", lead, class_="lead"), join(body))
    return tag("section", *content, id=anchor)


def details(summary: object, *body: object) -> Html:
    """Folded away until it is asked for."""
    return tag("details", tag("summary", summary), *body)


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str) -> Html:
    """The first cell of a row names it; the others are figures. Without a head: a list of facts."""
    top = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if head else ""
    body = join(
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    )
    grid = tag("table", tag("caption", caption), top, tag("tbody", body))
    kind = "scroll" if head else "scroll facts"
    return tag("div", grid, class_=kind, tabindex=0, role="region", aria_label=caption)


def figures(pairs: Iterable[tuple[object, object]]) -> Html:
    """A few large numbers with what they are."""
    return tag(
        "dl",
        *(tag("div", tag("dt", what), tag("dd", value)) for value, what in pairs),
        class_="figures-row",
    )


def marked(explanation: Explanation, column: int) -> Html:
    """The text with its words marked by what they say for, or against, a class."""
    relative = explanation.relative
    scores = relative[column]
    strength = scores / contribution_scale(relative)
    spans, pieces = explanation.spans, []
    places = excerpt(scores, words=WORDS)
    for number, part in enumerate(places):
        whole = len(part) == len(spans)
        first = 0 if whole else spans[part.start][0]
        last = len(explanation.text) if whole else spans[part.stop - 1][1]
        pieces.append(" … " if number else "… " if first else "")
        inside = [(start - first, end - first) for start, end in spans[part.start : part.stop]]
        cut = explanation.text[first:last]
        pieces.append(_marks(cut, inside, strength[part.start : part.stop]))
        if number == len(places) - 1 and last < len(explanation.text):
            pieces.append(" …")
    return tag("p", *pieces, class_="text", dir="auto")


def _marks(text: str, spans: Sequence[tuple[int, int]], strength: Floats) -> Html:
    pieces: list[Html] = []
    for t, piece in segments(text, spans):
        value = 0.0 if t is None else float(strength[t])
        if abs(value) < FAINTEST or not piece:
            pieces.append(html(piece))
        else:
            step = min(int((abs(value) - FAINTEST) / (1 - FAINTEST) * 4), 3) + 1
            pieces.append(tag("mark", piece, class_=f"{'p' if value > 0 else 'n'}{step}"))
    return join(pieces, "")


def text_item(explanation: Explanation, labels: Sequence[str], truth: int) -> Html:
    """One text: what the model says, what the label says, and the words that decided."""
    best = explanation.best
    said = ("says ", tag("b", name(labels[best])), f" {share(explanation.probability)}")
    given: tuple[object, ...] = (tag("span", "✓ right", class_="right"),)
    if best != truth:
        own = share(float(explanation.probabilities[truth]))
        given = (tag("span", "✗ labelled ", name(labels[truth]), class_="wrong"), f" {own}")
    meta = tag("p", *said, Html(" &middot; "), *given, class_="meta")
    sums = tag("p", summed(explanation, best), class_="sums")
    return tag("li", meta, marked(explanation, best), sums)


def texts_list(items: Iterable[Html]) -> Html:
    """Texts one below the other."""
    return tag("ul", *items, class_="texts")


def bar(value: float) -> Html:
    """A share as a bar; its figure must stand beside it."""
    width = f"{100 * min(max(value, 0), 1):.1f}"
    return Html(
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="6"/><rect width="{width}" height="6"/></svg>'
    )


def per_cent(value: float, digits: int = 1) -> str:
    """``77.4 %``."""
    return f"{100 * value:.{digits}f} %"


def interval(share_: float, texts: int) -> tuple[float, float]:
    """Where a share of ``texts`` texts lies with 95 % confidence (Wilson)."""
    z = 1.96
    middle = (share_ + z * z / (2 * texts)) / (1 + z * z / texts)
    inner = share_ * (1 - share_) / texts + z * z / (4 * texts**2)
    half = z * math.sqrt(inner) / (1 + z * z / texts)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def size(count: float) -> str:
    """Bytes for a person."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def many(count: int, one: str, more: str | None = None) -> str:
    """``1 text``, ``2 texts``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
