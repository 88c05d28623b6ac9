"""Dataset summary in the terminal: what ``lamatext train`` read and how it was split."""

from lamatext.data.dataset import Dataset
from lamatext.data.summary import summarize_dataset
from lamatext.progress import Progress


def show_dataset(
    train: Dataset, validation: Dataset | None, test: Dataset, progress: Progress
) -> None:
    """Print the dataset's columns, the sizes of its splits and its summary as progress notes."""
    progress.note(
        f"{train.source}: texts from the column '{train.text_column}', "
        f"labels from '{train.label_column}'"
    )
    validating = "" if validation is None else f", {len(validation):,} to validate"
    progress.note(f"{len(train):,} texts to train{validating}, {len(test):,} to test")
    for line in summarize_dataset(train, test).lines():
        progress.note(line)
