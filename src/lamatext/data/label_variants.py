"""Label variants: labels that differ only in case or spaces, and their merging into one label."""

from collections.abc import Iterable, Mapping

from lamatext.data.dataset import Dataset
from lamatext.data.summary import class_counts


def label_variants(counts: Mapping[str, int]) -> list[list[str]]:
    """Return the groups of labels that differ only in case or spaces, most frequent label first.

    Args:
        counts: the number of rows of each label.
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        groups.setdefault(label_key(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def merge_label_variants(dataset: Dataset, known: Iterable[str] = ()) -> Dataset:
    """Merge the label variants of a dataset: labels that differ only in case or spaces.

    That is the known label, such as a class of a model, or the most frequent one, without spaces
    at its ends.
    """
    counts = class_counts(dataset)
    merged = {label_key(label): label for label in known}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        merged.setdefault(label_key(label), label.strip())
    return dataset.rename_labels({label: merged[label_key(label)] for label in counts})


def label_key(label: str) -> str:
    """Return the key that label variants share: the label in lower case without spaces."""
    return "".join(label.split()).casefold()
