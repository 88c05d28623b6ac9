"""Choice of evaluation data: which texts of a source a saved model may be scored on.

``find_old_tests`` finds the test sets of a model that is continued: those of its own data and of
the data of its ancestors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.data.label_variants import merge_label_variants
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.table import DEFAULTS
from lamatext.data.sources import has_test_split, load_dataset
from lamatext.errors import ConfigError, DataError
from lamatext.pipeline import Splits, split_dataset
from lamatext.saved.ancestors import TrainingData, all_training_data
from lamatext.saved.format import Config, load_config, saved_recipe
from lamatext.settings import Recipe


@dataclass(frozen=True, slots=True)
class EvaluationData:
    """Texts for evaluating a saved model, and the model's training texts if known."""

    texts: Dataset
    train: Dataset | None  # the training part of the same source
    about: str  # which texts these are, in a few words
    is_seen: bool = False  # whether the model was trained on these texts


def load_evaluation_data(
    folder: Path, source: str, options: ReadOptions = DEFAULTS
) -> EvaluationData:
    """Load the evaluation data for a saved model, avoiding its training texts if possible.

    That is the test part of ``source`` or, if the model or one of its ancestors was trained on
    ``source``, the tenth that was held out then. Any other source is used completely. Columns,
    separator and encoding are those of the model's training file, unless ``options`` names others.
    """
    config = load_config(folder)
    trained_on = all_training_data(config, saved_recipe(folder, config))
    read = _reader(source, trained_on[0].layout, config, options)
    if has_test_split(source):
        test = read("test")
        return EvaluationData(test, read("train"), f"its test part, {len(test):,} texts")
    whole = read("train")
    for data in trained_on:
        if (part := _known_part(whole, data)) is not None:
            return part
    about = f"{len(whole):,} texts"
    if any(
        Path(str(data.facts.get("source", ""))).name == Path(source).name for data in trained_on
    ):
        about += (
            ". A file of this name was the training data, with other rows: the model may have been "
            "TRAINED ON some of these texts"
        )
    return EvaluationData(whole, None, about)


def _reader(
    source: str, layout: Layout | None, config: Config, options: ReadOptions
) -> Callable[[str], Dataset]:
    """Return a function that reads the training or test part of an evaluation source."""
    options = replace(options, remembered=layout)

    def read(split: str) -> Dataset:
        dataset = load_dataset(source, options, split=split)
        if layout is not None and layout.merge_labels:
            return merge_label_variants(dataset, map(str, config["labels"]))
        return dataset

    return read


def _known_part(whole: Dataset, data: TrainingData) -> EvaluationData | None:
    """Return what a model may be scored on if it was trained on this source, otherwise None."""
    trained_on = data.facts.get("fingerprint")
    splits = _repeat_split(whole, data)
    if splits is not None and dataset_fingerprint(splits.train) == trained_on:
        held_out = f"the {len(splits.test):,} texts that were held out when the model was trained"
        return EvaluationData(splits.test, splits.train, held_out)
    seen = (trained_on, data.facts.get("validation_fingerprint"))
    if (identity := dataset_fingerprint(whole)) in seen:
        warning = f"{len(whole):,} texts that the model was TRAINED ON: the scores mean little"
        train = whole if identity == trained_on else None
        return EvaluationData(whole, train, warning, is_seen=True)
    return None


def _repeat_split(whole: Dataset, data: TrainingData) -> Splits | None:
    """Split the evaluation source as in training, or return None if its size does not match."""
    counts = [data.facts.get(f"{part}_texts", 0) for part in ("training", "test", "validation")]
    if whole.labels is None or not counts[1]:
        return None
    recipe = Recipe().with_values(
        {"seed": data.seed, "training.validation_fraction": data.validation_fraction}
    )
    if len(whole) == sum(counts):
        return split_dataset(whole, None, None, recipe)
    if len(whole) == sum(counts[:2]):  # the validation set came from another source
        return split_dataset(whole, whole, None, recipe)
    return None


def find_old_tests(
    folder: Path, old_data: str | None, options: ReadOptions = DEFAULTS
) -> tuple[list[Dataset], list[str]]:
    """Find the test sets of the data that a saved model and its ancestors were trained on.

    Args:
        folder: the saved model.
        old_data: labelled texts to use instead of the sources that the model remembers.
        options: limits of the reading.

    Returns:
        The test sets, and for each source without one the reason.
    """
    config = load_config(folder)
    if old_data is not None:
        found = load_evaluation_data(folder, old_data, options)
        if found.is_seen:
            raise DataError(
                f"--old-data {old_data}: the model was trained on all of these texts. Give "
                "labelled texts that it has not seen."
            )
        return [found.texts], []
    tests, reasons = [], []
    for data in all_training_data(config, saved_recipe(folder, config)):
        try:
            tests.append(_remembered_test(data, config, options))
        except (DataError, ConfigError) as error:
            reasons.append(str(error))
    return tests, reasons


def _remembered_test(data: TrainingData, config: Config, options: ReadOptions) -> Dataset:
    """Read the test set of the data that a saved model remembers.

    Raises:
        DataError: there was none, or it cannot be found again.
    """
    facts = data.facts
    source = facts.get("test_source") or facts.get("source")
    if source is None or source == "-":
        raise DataError("the model does not remember a file of its training data.")
    if not facts.get("test_texts") or "test_fingerprint" not in facts:
        raise DataError(f"{source}: no texts were held out for testing.")
    read = _reader(source, data.layout, config, options)
    if "test_source" in facts:
        test = read("train")
    elif has_test_split(source):
        test = read("test")
    else:
        splits = _repeat_split(read("train"), data)
        if splits is None:
            raise DataError(f"{source}: not the file that the model was trained on.")
        test = splits.test
    if dataset_fingerprint(test) != facts["test_fingerprint"]:
        raise DataError(f"{source}: has changed since the model was trained.")
    return test
