"""Dataset summary in the terminal: the data that ``lamatext train`` read, and its split."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lamatext.data.column_detection import label_separator
from lamatext.data.dataset import Dataset
from lamatext.data.labels import class_counts, label_variants
from lamatext.data.read_options import source_name
from lamatext.data.summary import Summary, summarize_dataset
from lamatext.errors import percent, plural
from lamatext.progress import Progress
from lamatext.views.formatting import listed_label

MAX_CLASSES = 10  # shown
MANY_SHARED, MOST_SHARED = 0.05, 0.9  # shares of the test texts that are in the training data
MANY_HTML = 0.03  # share of texts with HTML to mention it


def show_dataset(
    train: Dataset,
    validation: Dataset | None,
    test: Dataset,
    progress: Progress,
    *,
    folds: int = 0,
    held_out: float = 0.0,
) -> Summary:
    """Print a summary of a dataset to the terminal: columns, split sizes and statistics.

    The summary is returned, too.

    Args:
        train: the training set.
        validation: the validation set, or None if there is none.
        test: the test set.
        progress: where to print.
        folds: number of cross-validation folds, or 0 if there is a test set.
        held_out: the share of the training texts that are held out for validation if there is
            neither a validation set nor a cross-validation.
    """
    progress.section("Data")
    show_reading(train, progress)
    for hint in label_hints(train):
        progress.note(hint.text)
    progress.note(_part_sizes(train, validation, None if folds else test, held_out))
    if folds:
        progress.note(
            f"too few texts to hold some out for testing: the scores are from {folds}-fold "
            "cross-validation; the saved model is trained on all texts"
        )
    summary = summarize_dataset(train, None if folds else test)
    for line in summary_lines(summary):
        progress.note(line)
    return summary


def _part_sizes(
    train: Dataset, validation: Dataset | None, test: Dataset | None, held_out: float
) -> str:
    sizes = plural(len(train), "training text")
    if validation is not None:
        sizes += f", {plural(len(validation), 'validation text')}"
    elif test is not None and held_out:
        sizes += f" ({100 * held_out:g} % of them for validation)"
    return sizes if test is None else f"{sizes}, {plural(len(test), 'test text')}"


def overlap_warning(summary: Summary) -> str | None:
    """Return a warning that test texts are in the training data, or None if only a few are."""
    shared, texts = summary.in_both or 0, summary.test_rows or 0
    if shared < MANY_SHARED * texts or not shared:
        return None
    effect = "mean little" if shared >= MOST_SHARED * texts else "may be too high"
    return (
        f"{shared:,} of {plural(texts, 'test text')} are duplicates or near-duplicates of training "
        f"texts: the scores {effect}."
    )


def show_reading(dataset: Dataset, progress: Progress) -> None:
    """Print how a dataset was read, with its columns and any skipped rows."""
    layout = dataset.layout
    progress.note(
        f"{source_name(dataset.source)}: texts from {_columns(layout.text_columns)}, "
        f"labels from {_columns(layout.label_columns)}"
    )
    for note in dataset.notes:
        progress.note(note)


class LabelHint(NamedTuple):
    """Hint that the labels of a dataset should be read in another way."""

    text: str
    options: tuple[str, ...]  # of the command line, which read them so


def label_hints(dataset: Dataset) -> list[LabelHint]:
    """Return hints about labels in a dataset that look wrong, such as spelling variants."""
    if dataset.labels is None:
        return []
    hints = []
    variants = label_variants(class_counts(dataset))
    if variants:
        shown = "; ".join(" = ".join(map(repr, group)) for group in variants[:5])
        more = f" and {len(variants) - 5} more" if len(variants) > 5 else ""
        text = (
            f"labels that differ only in case or spaces: {shown}{more}. "
            "Make them one label with --merge-labels"
        )
        hints.append(LabelHint(text, ("--merge-labels",)))
    separator = None if dataset.is_multi_label else label_separator(dataset.labels)
    if separator is not None:
        text = (
            f"the labels look like several labels per text, joined by '{separator}'. "
            f"Read them as such with --label-separator '{separator}'"
        )
        hints.append(LabelHint(text, ("--label-separator", separator)))
    return hints


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(repr(name) for name in names)}"


def summary_lines(summary: Summary) -> list[str]:
    """Format a dataset summary as lines for the terminal."""
    lines = []
    if summary.classes:
        kind = ("class", "classes") if summary.labels_per_text is None else ("label", "labels")
        lines.append(class_line(summary.classes, summary.rows, kind))
    if summary.labels_per_text is not None:
        lines += _label_lines(summary.labels_per_text, summary.classes)
    lines.append(
        f"{plural(round(summary.mean_words), 'word')} per text on average; 95 % have at most "
        f"{summary.words[95]:,}, the longest {summary.words[100]:,}"
    )
    counts = {
        "empty text": summary.empty,
        "exact duplicate": summary.duplicates,
        "near-duplicate": summary.near_duplicates,
    }
    found = [plural(count, noun) for noun, count in counts.items() if count]
    if summary.in_both:
        of = f"of {plural(summary.test_rows or 0, 'test text')}"
        are = "is a duplicate or near-duplicate" if summary.in_both == 1 else (
            "are duplicates or near-duplicates"
        )  # fmt: skip
        found.append(f"{summary.in_both:,} {of} {are} of training texts")
    in_training = "" if summary.in_both is None else ", no test texts among the training texts"
    lines.append(", ".join(found) or f"no empty texts, no duplicates{in_training}")
    if summary.conflicting:
        lines.append(
            f"{summary.conflicting:,} texts have a duplicate or near-duplicate with another label; "
            "`lamatext clean` lists those to check"
        )
    if summary.with_html > MANY_HTML * summary.rows:
        lines.append(
            f"{_share(summary.with_html / summary.rows)} of the texts contain HTML tags or "
            "entities, which count as words; remove them if they carry no meaning"
        )
    return lines


def class_line(
    classes: Mapping[str, int], rows: int, kind: tuple[str, str] = ("class", "classes")
) -> str:
    """Format the class balance of a dataset as one terminal line, most frequent class first."""
    shown = list(classes.items())[:MAX_CLASSES]
    shares = ", ".join(f"{listed_label(name)} {_share(n / rows)}" for name, n in shown)
    rest = len(classes) - MAX_CLASSES
    return f"{plural(len(classes), *kind)}: {shares}{f' and {rest} more' if rest > 0 else ''}"


def _share(fraction: float) -> str:
    return percent(fraction, 0) if fraction >= 0.1 else percent(fraction)


def _label_lines(labels_per_text: dict[int, int], classes: dict[str, int]) -> list[str]:
    """Format terminal lines on the labels per text and the rarest labels of a dataset."""
    texts = sum(labels_per_text.values())
    mean = sum(number * count for number, count in labels_per_text.items()) / texts
    shares = ", ".join(f"{count:,} with {n}" for n, count in list(labels_per_text.items())[:5])
    rarest = ", ".join(f"{listed_label(label)} {n}" for label, n in list(classes.items())[:-6:-1])
    return [
        f"labels per text: {mean:.2f} on average; texts: {shares}",
        f"rarest labels (texts): {rarest}",
    ]
