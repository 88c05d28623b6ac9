"""The sections on data and scores."""

from collections.abc import Sequence
from typing import Any

from lamatext.views.charts import Chart, Line, figure, spread, steps, unit
from lamatext.views.markup import (
    Html,
    bar,
    details,
    figures,
    interval,
    join,
    many,
    name,
    per_cent,
    section,
    size,
    table,
    tag,
)
from lamatext.views.report.collect import Findings

FEW = 12  # classes whose shares are shown unfolded


def headline(found: Findings) -> Html:
    """The model in four numbers."""
    scores = found.scores
    low, high = interval(scores.accuracy, scores.texts)
    usual = max(row.texts for row in scores.classes) / scores.texts
    lead = (
        f"Of 100 texts like these, the model labels about {100 * scores.accuracy:.0f} right "
        f"(95 % sure: between {100 * low:.0f} and {100 * high:.0f}). Always giving the commonest "
        f"label would be right for {100 * usual:.0f}."
    )
    return join([
        tag("p", lead, class_="lead"),
        figures([
            (per_cent(scores.accuracy), "right answers"),
            (f"{scores.macro_f1:.3f}", "macro-F1: every class counts alike, 1 is perfect"),
            (size(found.size), "the whole model"),
            (f"{found.speed.one_text_ms:.1f} ms", "for one text, on this machine"),
        ]),
    ])  # fmt: skip


def data(found: Findings) -> Html:
    """What it learnt from, and what should worry one."""
    about, rows = found.data, found.data.rows
    lead = (
        "What the model had to learn from. Good data has enough texts of every class, few copies, "
        f"and no test text that was seen in training. {_worries(found)}"
    )
    facts = [
        ("texts at hand" if found.held.train is None else "training texts", f"{rows:,}"),
        ("texts scored in this report", f"{len(found.texts):,}"),
        ("words in a text, on average", f"{about.mean_words:,.0f}"),
        ("words in a short, a middling, a long text (5, 50, 95 of 100)",
         " · ".join(f"{about.words[p]:,}" for p in (5, 50, 95))),
        ("texts without a word", f"{about.empty:,}"),
        ("exact copies of an earlier text", f"{about.duplicates:,}"),
        ("scored texts with the same words but different labels", f"{found.conflicts:,}"),
    ]  # fmt: skip
    if about.in_both is not None:
        facts.append(("scored texts that stand in the training texts too", f"{about.in_both:,}"))
    shares = table(
        ("class", "texts", "share", ""),
        [
            (name(label), f"{count:,}", per_cent(count / rows), bar(count / rows))
            for label, count in about.classes.items()
        ],
        "Texts of each class",
    )
    if len(about.classes) > FEW:
        shares = details(f"Texts of each of the {len(about.classes)} classes", shares)
    learnt = "The training texts" if found.held.train is not None else "The texts at hand"
    caption = f"{learnt} of {found.held.texts.source}"
    return section("data", "The data", lead, table((), facts, caption), shares)


def _worries(found: Findings) -> str:
    about, worries = found.data, []
    if about.in_both:
        share = about.in_both / max(about.test_rows or 1, 1)
        worries.append(f"{per_cent(share)} of the scored texts were seen in training")
    if about.duplicates > 0.02 * about.rows:
        worries.append(f"{per_cent(about.duplicates / about.rows)} of the texts are copies")
    if found.conflicts:
        worries.append(f"{many(found.conflicts, 'text')} with two different labels")
    counts = list(about.classes.values())
    if counts and min(counts) < 50:
        worries.append(f"the rarest class has only {many(min(counts), 'text')}")
    if found.held.train is found.held.texts:
        worries.insert(0, "the scored texts are those that it learnt from, so scores mean little")
    return f"Worth knowing: {'; '.join(worries)}." if worries else "Nothing here needs worry."


def baselines(found: Findings) -> Html:
    """The leaderboard that was kept with the model."""
    board: Sequence[dict[str, Any]] = found.metrics.get("leaderboard") or []
    title = "Beside the baselines"
    if not board:
        lead = "How well simpler methods do on the same texts. None was trained beside this model."
        how = "Train with --baselines tfidf,tfidf-svc to have them here."
        return section("baselines", title, lead, tag("p", how, class_="note"))
    lead = (
        "Other methods, trained and scored on the same texts when the model was made: a longer bar "
        f"is better. {_winner(board, found)}"
    )
    rows = [
        (
            tag("b", row["model"]) if row is board[0] else row["model"],
            per_cent(row["accuracy"]),
            bar(row["accuracy"]),
            f"{row['macro_f1']:.3f}",
            size(row["bytes"]),
            f"{row['texts_per_second']:,.0f}",
            f"{row['seconds']:,.0f} s",
        )
        for row in sorted(board, key=lambda row: -row["accuracy"])
    ]
    head = ("model", "right", "", "macro-F1", "size", "texts a second", "training")
    return section("baselines", title, lead, table(head, rows, "Scores beside the baselines"))


def _winner(board: Sequence[dict[str, Any]], found: Findings) -> str:
    own, others = board[0], board[1:]
    if not others:
        return "No baseline was trained beside it."
    best = max(others, key=lambda row: float(row["accuracy"]))
    gap = own["accuracy"] - best["accuracy"]
    texts = found.metrics.get("test", {}).get("texts") or found.scores.texts
    chance = 1.96 * (2 * own["accuracy"] * (1 - own["accuracy"]) / texts) ** 0.5
    who = f"{own['model']} is" if gap >= 0 else f"{best['model']} is"
    other = best["model"] if gap >= 0 else own["model"]
    told = f"Here {who} ahead of {other} by {abs(100 * gap):.1f} points"
    if not gap:
        told = f"Here {own['model']} and {best['model']} are equal"
    small = f"; with {texts:,} test texts so small a difference can be chance"
    return told + (small if abs(gap) < chance else "") + "."


def curves(found: Findings) -> Html:
    """How it learnt."""
    history: Sequence[dict[str, float]] = found.metrics.get("history") or []
    title = "How it learnt"
    if not history:
        return section("curves", title, "No learning curve was kept with this model.")
    epochs = [int(row["epoch"]) for row in history]
    losses = [float(row["loss"]) for row in history]
    right = [float(row["accuracy"]) for row in history]
    top = max(right)
    lead = (
        "Training reads all texts several times (an epoch each). Good: the error on the training "
        "texts falls, and the share of right answers on texts kept aside rises and then stays. "
        f"Here it went from {per_cent(right[0])} to {per_cent(right[-1])}, {per_cent(top)} at best."
    )
    across = steps("epoch", epochs[-1])
    told = f"from {losses[0]:.3f} in epoch {epochs[0]} to {losses[-1]:.3f} in epoch {epochs[-1]}"
    rows = [
        (epoch, f"{loss:.4f}", per_cent(share))
        for epoch, loss, share in zip(epochs, losses, right, strict=True)
    ]
    points = list(zip(map(float, epochs), right, strict=True))
    aside = figure(
        Chart("chart-right", "Right answers on texts kept aside",
              f"From {per_cent(right[0])} to {per_cent(top)} at best.",
              across, spread("right answers", right, "{:.1%}", most=1.0),
              [Line("right", points, 1)]),
        head=("epoch", "error in training", "right on texts kept aside"), rows=rows,
    )  # fmt: skip
    points = list(zip(map(float, epochs), losses, strict=True))
    error = figure(
        Chart("chart-error", "Error on the training texts", f"The error goes {told}.",
              across, spread("error (cross-entropy)", losses, "{:.2f}"), [Line("error", points, 2)])
    )  # fmt: skip
    note = "This is the network alone" if "n-grams" in found.config.get("parameters", {}) else ""
    return section("curves", title, lead, tag("div", aside, error, class_="pair"),
                   tag("p", f"{note}; the n-grams beside it are fitted in one step.", class_="note")
                   if note else "")  # fmt: skip


def classes(found: Findings) -> Html:
    """Precision, recall and F1."""
    rows = sorted(found.scores.classes, key=lambda row: row.f1)
    present = [row for row in rows if row.texts] or rows
    worst, best = present[0], present[-1]
    lead = Html(
        "How well each class is found. <b>Precision</b>: of the texts given this label, how many "
        "deserve it. <b>Recall</b>: of the texts that deserve it, how many got it. F1 joins the "
        f"two; near 1 is good. The weakest here is {name(worst.label)} ({worst.f1:.3f}), the "
        f"strongest {name(best.label)} ({best.f1:.3f})."
    )
    body = [
        (name(row.label), f"{row.precision:.3f}", f"{row.recall:.3f}", f"{row.f1:.3f}",
         bar(row.f1), f"{row.texts:,}")
        for row in rows
    ]  # fmt: skip
    head = ("class", "precision", "recall", "F1", "", "texts")
    return section("classes", "Class by class", lead, table(head, body, "Scores of each class"))


def calibration(found: Findings) -> Html:
    """Whether a probability means what it says."""
    scores = found.scores
    groups = scores.reliability
    sure = sum(c * n for c, n in zip(groups.confidence, groups.texts, strict=True)) / scores.texts
    error = scores.calibration_error
    if error <= 0.03:
        verdict = "they can be taken at their word"
    elif error <= 0.08:
        verdict = "they are roughly right"
    else:
        verdict = "it is too sure of itself" if sure > scores.accuracy else "it is too modest"
    lead = (
        "When the model says 80 %, is it right 8 times of 10? Good: points near the dotted line. "
        f"Here its probabilities are off by {100 * error:.1f} points on average: {verdict}."
    )
    points = list(zip(groups.confidence, groups.accuracy, strict=True))
    most = max(groups.texts)
    radii = [3 + 7 * (n / most) ** 0.5 for n in groups.texts]
    band = [interval(a, n) for a, n in zip(groups.accuracy, groups.texts, strict=True)]
    rows = [
        (per_cent(c), per_cent(a), f"{n:,}")
        for c, a, n in zip(groups.confidence, groups.accuracy, groups.texts, strict=True)
    ]
    drawn = figure(
        Chart("chart-promise", "What it promises, and what comes true",
              f"Mean gap {100 * error:.1f} points.",
              unit("how sure it says it is"), unit("how often it is right"),
              [Line("right", points, 1, band, radii)], [((0, 0), (1, 1))]),
        head=("says", "is right", "texts"), rows=rows,
    )  # fmt: skip
    note = "Larger points stand for more texts; the shade is where chance may move them."
    return section("calibration", "Can its probabilities be trusted?", lead, drawn,
                   tag("p", note, class_="note"))  # fmt: skip
