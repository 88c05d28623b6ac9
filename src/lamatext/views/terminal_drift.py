"""Input drift in the terminal: a table that compares new texts with the validation texts."""

from rich.console import Console

from lamatext.errors import percent, percent_range, plural
from lamatext.input_drift import Drift
from lamatext.views.terminal_table import TerminalTable

MAX_LABELS = 20  # the labels whose share has changed most


def show_drift(console: Console, drift: Drift) -> None:
    """Print a table of drift measures and a one-line conclusion to the terminal."""
    by_change = sorted(drift.labels, key=lambda share: -abs(share.new - share.validation))
    shown = [drift.unknown_words, drift.outliers, *by_change[:MAX_LABELS]]
    rows = [
        (
            share.name if number < 2 else f"label {share.name}",
            percent(share.validation),
            percent(share.new),
            percent_range(share.low, share.high),
            "changed" if share.has_changed else "",
        )
        for number, share in enumerate(shown)
    ]
    console.print(
        f"{plural(drift.texts, 'text')} compared with the model's "
        f"{plural(drift.validation_texts, 'validation text')}\n"
    )
    columns = ("share of", "validation texts", "these texts", "95 % interval", "")
    console.print(TerminalTable(columns, rows, texts=1))
    if len(by_change) > MAX_LABELS:
        console.print(
            f"({plural(len(by_change) - MAX_LABELS, 'more label')}, whose share changed less)"
        )
    console.print(
        "\nThe interval is that of one share in these texts. A share is marked as changed if its "
        "difference is more than chance explains, which also depends on the number of validation "
        f"texts and on comparing {len(drift.shares)} shares at once."
    )
    changed = sum(share.has_changed for share in drift.shares)
    console.print(
        f"\n{changed} of {len(drift.shares)} shares changed more than chance explains."
        if changed
        else "\nNo share has changed more than chance explains."
    )
