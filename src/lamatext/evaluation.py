"""Choice of evaluation data: which texts of a source a saved model may be scored on."""

from dataclasses import dataclass, replace
from pathlib import Path

from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.data.label_variants import merge_label_variants
from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.table import DEFAULTS
from lamatext.data.sources import has_test_split, load_dataset
from lamatext.pipeline import Splits, split_dataset
from lamatext.saved.format import Config, load_config, remembered_layout, saved_recipe
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

    That is the test part of ``source`` or, if the model was trained on ``source``, the tenth that
    was held out then. Any other source is used completely. Columns, separator and encoding are
    those of the model's training file, unless ``options`` names others.
    """
    config = load_config(folder)
    layout = remembered_layout(config)
    options = replace(options, remembered=layout)

    def read(split: str = "train") -> Dataset:
        dataset = load_dataset(source, options, split=split)
        if layout is not None and layout.merge_labels:
            return merge_label_variants(dataset, map(str, config["labels"]))
        return dataset

    if has_test_split(source):
        test = read(split="test")
        return EvaluationData(test, read(), f"its test part, {len(test):,} texts")
    whole, trained_on = read(), config.get("data", {}).get("fingerprint")
    splits = _repeat_split(whole, config, saved_recipe(folder, config))
    if splits is not None and dataset_fingerprint(splits.train) == trained_on:
        held_out = f"the {len(splits.test):,} texts that were held out when the model was trained"
        return EvaluationData(splits.test, splits.train, held_out)
    seen = (trained_on, config.get("data", {}).get("validation_fingerprint"))
    if (identity := dataset_fingerprint(whole)) in seen:
        warning = f"{len(whole):,} texts that the model was TRAINED ON: the scores mean little"
        train = whole if identity == trained_on else None
        return EvaluationData(whole, train, warning, is_seen=True)
    return EvaluationData(whole, None, f"{len(whole):,} texts")


def _repeat_split(whole: Dataset, config: Config, recipe: Recipe) -> Splits | None:
    """Split the evaluation source as in training, or return None if its size does not match."""
    data = config.get("data", {})
    counts = [data.get(f"{part}_texts", 0) for part in ("training", "test", "validation")]
    if whole.labels is None or not counts[1]:
        return None
    if len(whole) == sum(counts):
        return split_dataset(whole, None, None, recipe)
    if len(whole) == sum(counts[:2]):  # the validation set came from another source
        return split_dataset(whole, whole, None, recipe)
    return None
