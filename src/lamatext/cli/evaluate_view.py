"""What ``lamatext evaluate`` shows."""

from rich.console import Console

from lamatext.cli.output import out, table
from lamatext.explain.faithfulness import Faithfulness
from lamatext.metrics import Reliability, Scores

MOST = 20  # classes whose confusions fit a screen


def show_scores(scores: Scores, speed: float) -> None:
    """All scores, the summary first."""
    console = out()
    console.print(
        f"accuracy {scores.accuracy:.4f}   macro-F1 {scores.macro_f1:.4f}   "
        f"calibration error {scores.calibration_error:.4f}   log loss {scores.log_loss:.4f}   "
        f"({scores.texts:,} texts, {speed:,.0f} texts/s)\n"
    )
    rows = [
        (c.label, f"{c.precision:.3f}", f"{c.recall:.3f}", f"{c.f1:.3f}", f"{c.texts:,}")
        for c in scores.classes
    ]
    console.print(table(("class", "precision", "recall", "F1", "texts"), rows))
    _show_confusion(console, scores)
    _show_reliability(console, scores.reliability)


def show_faithfulness(found: Faithfulness) -> None:
    """What taking words away does, by the order in which they go; then the verdict."""
    console = out()
    shares = found.shares
    told = [shares.index(share) for share in (0.05, 0.2, 0.5)]
    console.print(
        f"\nReasons, checked on {found.texts:,} texts: the predicted class's probability, and what "
        "it loses when words go"
    )
    rows = [
        (
            name,
            str(order.comprehensiveness),
            str(order.sufficiency),
            *(f"{order.deletion[place].value:.2f}" for place in told),
            *(f"{order.insertion[place].value:.2f}" for place in told),
        )
        for name, order in found.orders.items()
    ]
    parts = [f"{way} {shares[place]:.0%}" for way in ("without", "only") for place in told]
    columns = ("words by", "comprehensiveness", "sufficiency", *parts)
    console.print(table(columns, rows))
    console.print("High comprehensiveness and low sufficiency are good; [ ] is 95 % confidence.",
                  markup=False)  # fmt: skip
    console.print(f"\n{found.verdict()}", markup=False)


def _show_confusion(console: Console, scores: Scores) -> None:
    labels = [c.label for c in scores.classes]
    if len(labels) > MOST:
        console.print(f"\nThe most frequent of {len(labels)} classes' confusions:")
        pairs = [
            (count, labels[i], labels[j])
            for i, row in enumerate(scores.confusion)
            for j, count in enumerate(row)
            if i != j and count
        ]
        rows = [(f"{true} → {found}", f"{n:,}") for n, true, found in sorted(pairs)[::-1][:MOST]]
        console.print(table(("true → predicted", "texts"), rows))
        return
    console.print("\nConfusion: rows are the true classes, columns the predicted ones")
    console.print(
        table(
            ("", *labels),
            [(labels[i], *map(str, row)) for i, row in enumerate(scores.confusion)],
        )
    )


def _show_reliability(console: Console, reliability: Reliability) -> None:
    console.print("\nCalibration: when the model says p, it is right this often")
    groups = zip(reliability.confidence, reliability.accuracy, reliability.texts, strict=True)
    rows = [
        (f"{promised:.2f}", f"{kept:.2f}", f"{texts:,}", "█" * round(kept * 30))
        for promised, kept, texts in groups
    ]
    shown = table(("says", "right", "texts", ""), rows)
    shown.columns[3].justify = "left"
    console.print(shown)
