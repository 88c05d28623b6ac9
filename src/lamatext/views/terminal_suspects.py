"""Suspect labels in the terminal: their number and the most suspect examples."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from lamatext.errors import percent, plural
from lamatext.suspect_labels import IMPROBABLE, Suspect, SuspectSearch
from lamatext.views.formatting import listed_label, one_line, probability

SHOWN = 5
TEXT_LENGTH = 140  # characters of a text that are shown


def show_suspects(
    console: Console, search: SuspectSearch, rows: Sequence[Mapping[str, object]]
) -> None:
    """Print the number of suspect labels and the most suspect examples to the terminal.

    The suspects are counted by reason. Each example is a text with its suspect label, the suggested
    label, and the words that support the suggestion. ``rows`` are the rows of the suspects file, in
    the order of the suspects.
    """
    improbable = sum(suspect.is_improbable for suspect in search.suspects)
    share = percent(improbable / search.texts)
    conflicts = sum(suspect.duplicate is not None for suspect in search.suspects)
    outliers = sum(suspect.is_outlier for suspect in search.suspects)
    counts = [
        f"{plural(improbable, 'improbable label')} of {plural(search.texts, 'text')} ({share}): "
        f"below {percent(IMPROBABLE, 0)} for models that did not see the text",
        f"{percent(search.agreement)} of the labels are the ones that the models predict",
    ]
    if conflicts:
        one, more = "text is a near-duplicate", "texts are near-duplicates"
        counts.append(f"{plural(conflicts, one, more)} of a text with another label")
    if outliers:
        counts.append(f"{plural(outliers, 'text is', 'texts are')} unlike the others")
    if search.unchecked:
        counts.append(
            f"{plural(search.unchecked, 'text')} could not be checked: no other text has the label"
        )
    if search.suspects and not any(suspect.is_label_suspect for suspect in search.suspects):
        counts.append(
            "No label is suspect; look at the unusual texts, but keep those that are right"
        )
    for line in counts:
        console.print(line, markup=False)
    shown = [pair for pair in zip(search.suspects, rows, strict=True) if pair[0].is_label_suspect]
    for suspect, row in shown[:SHOWN]:
        console.print()
        _show_suspect(console, suspect, row)
    console.print()


def _show_suspect(console: Console, suspect: Suspect, row: Mapping[str, object]) -> None:
    chances = ["", ""]
    if suspect.label_probability is not None and suspect.suggestion_probability is not None:
        values = suspect.label_probability, suspect.suggestion_probability
        chances = [f" {probability(value)}" for value in values]
    given, suggested = listed_label(suspect.label), listed_label(suspect.suggestion)
    title = f"row {row['row']}: {given}{chances[0]} → {suggested}{chances[1]}"
    console.print(Text(one_line(title), style="bold" if console.is_terminal else ""))
    text = one_line(" ".join(suspect.explanation.text.split()))
    short = text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"
    words = ", ".join(suspect.supporting_words)
    lines = [f"“{short}”", *([f"words for {suggested}: {words}"] if words else [])]
    if suspect.duplicate is not None:
        lines.append(str(row["reason"]))
    for line in lines:
        console.print(Padding(Text(one_line(line)), (0, 0, 0, 2), expand=False))
