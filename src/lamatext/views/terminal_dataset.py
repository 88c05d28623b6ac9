"""Dataset summary in the terminal: what ``lamatext train`` read and how it was split."""

from lamatext.data.dataset import Dataset
from lamatext.data.summary import Summary, summarize_dataset
from lamatext.progress import Progress


def show_dataset(
    train: Dataset, validation: Dataset | None, test: Dataset, progress: Progress
) -> None:
    """Print a dataset summary to the terminal: columns, split sizes and statistics."""
    progress.note(
        f"{train.source}: texts from the column '{train.text_column}', "
        f"labels from {', '.join(repr(column) for column in train.label_columns)}"
    )
    validating = "" if validation is None else f", {len(validation):,} validation texts"
    progress.note(f"{len(train):,} training texts{validating}, {len(test):,} test texts")
    for line in summary_lines(summarize_dataset(train, test)):
        progress.note(line)


def summary_lines(summary: Summary) -> list[str]:
    """Format a dataset summary as lines for the terminal."""
    lines = [f"{summary.source}: {summary.rows:,} texts"]
    if summary.classes:
        kind = "classes" if summary.labels_per_text is None else "labels"
        lines.append(f"{len(summary.classes)} {kind}: {_class_balance(summary)}")
    if summary.labels_per_text is not None:
        lines += _label_lines(summary.labels_per_text, summary.classes)
    percentiles = ", ".join(f"{words:,} at {p} %" for p, words in summary.words.items())
    lines.append(f"words per text: {summary.mean_words:,.0f} on average; {percentiles}")
    lines.append(f"{summary.empty:,} empty texts, {summary.duplicates:,} exact duplicates")
    if summary.in_both is not None:
        lines.append(
            f"{summary.in_both:,} of {summary.test_rows:,} test texts are also in training"
        )
    return lines


def _class_balance(summary: Summary, limit: int = 10) -> str:
    shown = list(summary.classes.items())[:limit]
    text = ", ".join(f"{label} {100 * count / summary.rows:.1f} %" for label, count in shown)
    rest = len(summary.classes) - limit
    return f"{text} and {rest} more" if rest > 0 else text


def _label_lines(labels_per_text: dict[int, int], classes: dict[str, int]) -> list[str]:
    """Format how many labels the texts of a dataset have, and its rarest labels."""
    texts = sum(labels_per_text.values())
    mean = sum(number * count for number, count in labels_per_text.items()) / texts
    shares = ", ".join(f"{count:,} with {n}" for n, count in list(labels_per_text.items())[:5])
    rarest = ", ".join(f"{label} {count}" for label, count in list(classes.items())[:-6:-1])
    return [
        f"labels per text: {mean:.2f} on average; texts: {shares}",
        f"rarest labels (texts): {rarest}",
    ]
