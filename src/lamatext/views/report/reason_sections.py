"""The sections on words, mistakes, trust in reasons, size and use."""

import shlex
from collections.abc import Sequence

from lamatext.explain.faithfulness import RANDOM, TOLD, Order
from lamatext.explain.global_words import GlobalWord
from lamatext.views.charts import Chart, Line, figure, unit
from lamatext.views.formatting import share, signed
from lamatext.views.markup import (
    Html,
    details,
    figures,
    join,
    many,
    name,
    section,
    size,
    table,
    tag,
    text_item,
    texts_list,
)
from lamatext.views.report.collect import Findings
from lamatext.views.report.confusion import LEGEND

IN_SUMMARY = 8  # words that stand beside a class before it is unfolded
MANY = 30  # classes that are folded away together
KINDS = {"contribution": 1, "attention": 2, "integrated gradients": 3, RANDOM: 4}


def words(found: Findings) -> Html:
    """Which words speak for which class, and where the heads look."""
    told = found.words
    lead = (
        "The words that speak most for each class, on average over "
        f"{many(told.texts, 'text')}. Good: words that you would point at too. Names, dates or "
        "odd signs on top mean that the model learnt an accident of the data."
    )
    by_class = [_folded(name(label), listed, "adds") for label, listed in told.classes.items()]
    if len(by_class) > MANY:
        by_class = [details(many(len(by_class), "class", "classes"), *by_class)]
    return section("words", "The words that count", lead, *by_class, *_heads(found))


def _folded(title: object, listed: Sequence[GlobalWord], score: str) -> Html:
    if not listed:
        return details(join([title, ": no word stands out"], ""), tag("p", "–"))
    first = join([tag("b", name(word.word)) for word in listed[:IN_SUMMARY]], ", ")
    form = signed if score == "adds" else share
    rows = [
        (name(word.word), form(word.score), f"{word.times:,}", tag("q", name(word.example)))
        for word in listed
    ]
    head = ("word", score, "times met", "for example")
    summary = join([tag("span", title, class_="what"), tag("span", first, class_="first")], " ")
    return details(summary, table(head, rows, "Words, the strongest first"))


def _heads(found: Findings) -> list[Html]:
    told = found.words
    if not told.heads:
        return []
    looks = [
        _folded(f"head {number}", listed, "× even share")
        for number, listed in enumerate(told.heads, start=1)
    ]
    intro = (
        "Each head of the attention looks at words in its own way. 2 means that a word gets twice "
        "the weight it would get if the head looked at all words alike."
    )
    parts = [tag("h3", "Where the heads look"), tag("p", intro, class_="note")]
    if told.differences is not None:
        overlap = told.differences.overlap
        gist = "look at much the same words" if overlap > 0.6 else "look at different words"
        gist = (
            f"Two heads share {overlap:.0%} of their weight on average: they {gist}. "
            f"(D_p {told.differences.positions:.2f}, D_e {told.differences.embeddings:.2f}.)"
        )
        parts.append(tag("p", gist, class_="note"))
    parts.append(details(many(len(looks), "head"), *looks))
    if told.contextual:
        parts.append(_folded("weight depends most on context", told.contextual, "spread"))
    return parts


def mistakes(found: Findings) -> Html:
    """The texts to read first."""
    doubtful, others = found.chosen.doubtful, found.chosen.mistakes
    if not doubtful and not others:
        return section("mistakes", "Mistakes worth reading", "The model made no mistake here.")
    lead = (
        "Where the model is sure and the label disagrees, one of the two is wrong. Read these "
        "first: a wrong label is cheap to correct, and a real mistake shows what to teach."
    )
    parts: list[object] = [tag("p", LEGEND, class_="note")]
    if doubtful:
        parts += [tag("h3", "Labels that may be wrong"), _listed(found, doubtful)]
    if others:
        title = "More confident mistakes" if doubtful else "Most confident mistakes"
        parts.append(details(f"{title}: {many(len(others), 'text')}", _listed(found, others)))
    return section("mistakes", "Mistakes worth reading", lead, *parts)


def _listed(found: Findings, rows: Sequence[int]) -> Html:
    return texts_list(
        text_item(found.explanations[row], found.labels, int(found.truth[row])) for row in rows
    )


def reasons(found: Findings) -> Html:
    """Whether the marked words are what decided."""
    told = found.faithfulness
    lead = (
        "Are the marked words really what decided? To see, we take them away and ask again. Good: "
        "without them the model is far less sure, far less than without words taken at random. "
    )
    drawn = [
        _curves(found, "deletion", "Without the strongest words", "share of words taken away",
                "A line that falls early names the words that decide."),
        _curves(found, "insertion", "With the strongest words alone", "share of words kept",
                "A line that rises early names the words that suffice."),
    ]  # fmt: skip
    rows = [
        (label, str(order.comprehensiveness), str(order.sufficiency), str(order.drop))
        for label, order in told.orders.items()
    ]
    head = ("words chosen by", "lost without them: comprehensiveness, high is good",
            "lost with them alone: sufficiency, low is good",
            f"lost without the first {TOLD:.0%}")  # fmt: skip
    summary = table(head, rows, f"Means over {many(told.texts, 'text')} [95 % confidence]")
    missing = "" if "integrated gradients" in told.orders else (
        "Integrated gradients were not computed: they need torch and captum, "
        "pip install 'lamatext[train,explain]'."
    )  # fmt: skip
    verdicts = [told.verdict()]
    if "attention" in told.orders:
        verdicts.append(told.verdict("contribution"))
    return section("reasons", "Can its reasons be trusted?", lead,
                   *(tag("p", verdict, class_="verdict-line") for verdict in verdicts),
                   tag("div", *drawn, class_="pair"), summary,
                   tag("p", missing, class_="note") if missing else "")  # fmt: skip


def _curves(found: Findings, way: str, title: str, across: str, told: str) -> Html:
    orders, shares = found.faithfulness.orders, found.faithfulness.shares

    def points(order: Order) -> list[tuple[float, float, float]]:
        return [tuple(point) for point in getattr(order, way)]

    lines = [
        Line(
            label,
            [(x, value) for x, (value, _, _) in zip(shares, points(order), strict=True)],
            KINDS.get(label, 4),
            [(low, high) for _, low, high in points(order)],
        )
        for label, order in orders.items()
    ]
    rows = [
        (f"{x:.0%}", *(f"{points(order)[place][0]:.3f}" for order in orders.values()))
        for place, x in enumerate(shares)
    ]
    chart = Chart(
        f"chart-{way}", title, told, unit(across), unit("probability of the class"), lines
    )
    return figure(chart, head=("words", *orders), rows=rows)


def cost(found: Findings) -> Html:
    """Size and speed."""
    counts: dict[str, int] = found.config.get("parameters", {})
    speed = found.speed
    lead = (
        "What it takes to run the model. It needs no graphics card and no connection: a few "
        "megabytes on disk, and an answer in less time than a blink (about 100 ms)."
        if speed.slow_text_ms < 100
        else "What it takes to run the model: disk space, and time for each text."
    )
    rows = [(part, f"{count:,}") for part, count in counts.items()]
    rows.append(("together", f"{sum(counts.values()):,}"))
    return section(
        "cost",
        "Size and speed",
        lead,
        figures([
            (size(found.size), "on disk"),
            (f"{speed.one_text_ms:.1f} ms", "for one text, half are quicker"),
            (f"{speed.slow_text_ms:.1f} ms", "for one text, 95 of 100 are quicker"),
            (f"{speed.texts_per_second:,.0f}", "texts a second, many at once"),
        ]),
        details("The numbers it learnt", table(("part", "numbers"), rows, "Parameters")),
    )  # fmt: skip


def use(found: Findings) -> Html:
    """What to type."""
    folder = str(found.folder)
    quoted = shlex.quote(folder)
    python = (
        "from lamatext import Predictor\n\n"
        f"model = Predictor.load({folder!r})\n"
        'model.predict(["a text to classify"])\n'
        'model.predict_proba(["a text to classify"])\n'
        'model.explain("a text to classify")'
    )
    shell = (
        f'lamatext predict {quoted} --text "a text to classify"\n'
        f"lamatext predict {quoted} new-texts.csv --out labelled.csv\n"
        f'lamatext explain {quoted} --text "a text to classify"\n'
        f"lamatext serve {quoted}"
    )
    lead = "Copy one of these to label new texts. Predicting needs neither torch nor a GPU."
    if found.config["recipe"]["model"]["name"] in ("te", "bert"):
        lead = "Copy one of these to label new texts."
    blocks = [
        join([tag("h3", title), tag("pre", tag("code", code), tabindex=0)])
        for title, code in (("Python", python), ("Command line", shell))
    ]
    return section("use", "How to use it", lead, *blocks)
