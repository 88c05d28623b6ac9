"""Choice of evaluation data: the texts of a source on which a saved model may be evaluated.

``find_start_model`` finds the test sets and training texts of a model that is continued: those of
its own data and of the data of its ancestors.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lamatext.atomic_write import is_special_file
from lamatext.data.dataset import Dataset, EvaluationData, dataset_fingerprint
from lamatext.data.duplicates import are_shared
from lamatext.data.labels import merge_label_variants
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.table import DEFAULTS
from lamatext.data.sources import has_test_split, load_dataset
from lamatext.data.text_sketch import TextSketch
from lamatext.errors import ConfigError, DataError, plural
from lamatext.pipeline import Splits, StartModel, split_dataset
from lamatext.saved.format import Config, load_config, saved_recipe
from lamatext.saved.model_io import TrainingData, all_training_data
from lamatext.settings import Recipe

# Shares of evaluation texts that are known training texts: below FEW they hardly raise the scores,
# from MOST on the scores mean little.
FEW, MOST = 0.01, 0.9


def load_evaluation_data(
    folder: Path, source: str, options: ReadOptions = DEFAULTS
) -> EvaluationData:
    """Load labelled texts for evaluating a saved model, preferably ones it was not trained on.

    If ``source`` has a test set, that is loaded. If the model, or a model whose training it
    continued, was trained on ``source``, only the tenth that was held out then is loaded. Any other
    source is loaded completely; training texts in it are recognized by the hashes that are saved
    with the model. Columns, separator and encoding are those of the model's training file, unless
    ``options`` names others.
    """
    config = load_config(folder)
    _warn_of_missing_columns(config, options, source)
    trained_on = all_training_data(config, saved_recipe(folder, config))
    read = _reader(source, trained_on[0].layout, config, options)
    if has_test_split(source):
        test = read("test")
        return EvaluationData(test, read("train"), f"its test part, {plural(len(test), 'text')}")
    whole = read("train")
    for data in trained_on:
        if (part := _known_part(whole, data)) is not None:
            return part if len(trained_on) == 1 else _leave_out_seen(folder, part, options)
    about = plural(len(whole), "text")
    hits, checked = _recognize(whole, trained_on)
    if hits:
        is_seen = hits >= MOST * checked
        return EvaluationData(
            whole, None, f"{about}. {_overlap(hits, checked, len(whole))}", is_seen
        )
    of_this_name = [
        data.facts
        for data in trained_on
        if Path(str(data.facts.get("source", ""))).name == Path(source).name
    ]
    if of_this_name:
        # A streamed model does not know its training rows.
        is_changed = all("sketch" in facts for facts in of_this_name)
        about += (
            f". A file of this name was the training data{', with other rows' * is_changed}: the "
            f"model may have been TRAINED ON {'some of ' * is_changed}these texts"
        )
    return EvaluationData(whole, None, about)


def _recognize(texts: Dataset, trained_on: Sequence[TrainingData]) -> tuple[int, int]:
    """Count the evaluation texts that were training texts, and those that could be checked."""
    sketches = [data.facts["sketch"] for data in trained_on if "sketch" in data.facts]
    found = [TextSketch.from_json(sketch).recognize(texts.texts) for sketch in sketches]
    return max(found, key=lambda pair: pair[0] / max(pair[1], 1), default=(0, 0))


def _overlap(hits: int, checked: int, texts: int) -> str:
    """Return a message stating how many evaluation texts were in the training data.

    It also says if some of them make the scores too high. If most are, every view warns of that.
    """
    were = "was also a training text" if hits == 1 else "were also training texts"
    what = f"{hits:,} of these texts {were}"
    if checked < texts:
        what = f"At least {what} ({checked:,} of {texts:,} could be checked)"
    is_too_high = FEW * checked <= hits < MOST * checked
    return f"{what}: the scores are too high" if is_too_high else what


def _warn_of_missing_columns(config: Config, options: ReadOptions, source: str) -> None:
    """Warn if no 0/1 column of the evaluation data is named for some labels of the model."""
    labels = list(map(str, config["labels"]))
    missing = [label for label in labels if label not in options.label_columns]
    if missing and len(options.label_columns) > 1 and "multi_label" in config:
        warnings.warn(
            f"{source}: --label-column is missing for {plural(len(missing), 'label')} of "
            f"{len(labels)}: {', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}. No "
            "text counts as having them, so every prediction of them counts as wrong.",
            stacklevel=3,
        )


def _reader(
    source: str, layout: Layout | None, config: Config, options: ReadOptions
) -> Callable[[str], Dataset]:
    """Return a function that reads the training or test split of a source for evaluation."""
    options = replace(options, remembered=layout, keep_lines=True)

    def read(split: str) -> Dataset:
        dataset = load_dataset(source, options, split=split)
        if layout is not None and layout.merge_labels:
            return merge_label_variants(dataset, map(str, config["labels"]))
        return dataset

    return read


def _known_part(whole: Dataset, data: TrainingData) -> EvaluationData | None:
    """Return the texts to evaluate the model on if it was trained on this source, or else None."""
    trained_on = data.facts.get("fingerprint")
    rest = _leave_out_again(whole, data)
    dropped = len(whole) - len(rest)
    without = f", without {plural(dropped, 'row')} that training left out" if dropped else ""
    splits = _repeat_split(rest, data)
    if splits is not None and dataset_fingerprint(splits.train) == trained_on:
        held_out = plural(len(splits.test), "text that was", "texts that were")
        about = f"the {held_out} held out when the model was trained{without}"
        return EvaluationData(splits.test, splits.train, about)
    seen = (trained_on, data.facts.get("validation_fingerprint"))
    if (identity := dataset_fingerprint(rest)) in seen:
        train = rest if identity == trained_on else None
        about = f"{plural(len(rest), 'text')} that the model was TRAINED ON{without}"
        return EvaluationData(rest, train, about, is_seen=True)
    return None


def _leave_out_seen(folder: Path, part: EvaluationData, options: ReadOptions) -> EvaluationData:
    """Remove evaluation texts that a continued model was trained on in another run."""
    is_seen = np.full(len(part.texts), part.is_seen)
    for known in find_start_model(folder, None, options).model.seen:
        is_seen |= are_shared(known.texts, part.texts.texts)
    if part.is_seen or not is_seen.any():
        return part
    if is_seen.all():
        about = f"{part.about}, on which it was TRAINED LATER"
        return replace(part, about=about, is_seen=True)
    about = f"{part.about}, without {is_seen.sum():,} that it was trained on in another run"
    return replace(part, texts=part.texts.take(np.flatnonzero(~is_seen)), about=about)


def _leave_out_again(whole: Dataset, data: TrainingData) -> Dataset:
    """Remove from the evaluation data the rows that ``lamatext train --without`` left out."""
    rows = np.array(data.facts.get("left_out_rows", []), np.int64)
    if not len(rows) or rows.max() >= len(whole):
        return whole
    return whole.take(np.setdiff1d(np.arange(len(whole)), rows))


def _repeat_split(whole: Dataset, data: TrainingData) -> Splits | None:
    """Reproduce the split of a saved model's training run, to evaluate the model on its test set.

    Return None if the data has changed since then.
    """
    counts = [data.facts.get(f"{part}_texts", 0) for part in ("training", "test", "validation")]
    if whole.labels is None or not counts[1]:
        return None
    recipe = Recipe().with_values(
        {"seed": data.seed, "training.validation_fraction": data.validation_fraction}
    )
    moved = np.array(data.facts.get("moved_rows", []), np.int64)
    seen = moved if len(moved) and moved.max() < len(whole) else None
    if counts[2] and len(whole) == sum(counts):
        return split_dataset(whole, None, None, recipe, seen=seen)
    if len(whole) == sum(counts[:2]):  # the validation set came from another source
        splits = split_dataset(whole, whole, None, recipe, seen=seen)
        return replace(splits, validation=None)
    return None


@dataclass(frozen=True, slots=True)
class StartSearch:
    """Old data found for evaluating a model to continue, and the reasons why any is missing."""

    model: StartModel
    untested: tuple[str, ...]  # reasons why old test sets were not found
    unknown: tuple[str, ...]  # reasons why training texts were not found


def find_start_model(
    folder: Path, old_data: str | None, options: ReadOptions = DEFAULTS
) -> StartSearch:
    """Find the training and test data of a saved model, to evaluate it before and after continuing.

    The data of its ancestors (the models whose training it continued) is found, too.

    Args:
        folder: the saved model, whose training is continued.
        old_data: labelled texts to score it on, instead of the test sets that it remembers.
        options: limits for reading the data.
    """
    config = load_config(folder)
    tests = [] if old_data is None else [_unseen_data(folder, old_data, options)]
    seen, untested, unknown = list[Dataset](), list[str](), list[str]()
    for data in all_training_data(config, saved_recipe(folder, config)):
        splits = None
        try:
            splits = _remembered_splits(data, config, options)
            seen += [part for part in (splits.train, splits.validation) if part is not None]
        except (DataError, ConfigError) as error:
            unknown.append(str(error))
        if old_data is not None:
            continue
        try:
            tests.append(_remembered_test(data, splits, config, options))
        except (DataError, ConfigError) as error:
            untested.append(str(error))
    return StartSearch(
        StartModel(folder, tuple(tests), tuple(seen)), tuple(untested), tuple(unknown)
    )


def _unseen_data(folder: Path, old_data: str, options: ReadOptions) -> Dataset:
    found = load_evaluation_data(folder, old_data, options)
    if found.is_seen:
        raise DataError(
            f"--old-data {old_data}: the model was trained on all of these texts. Give labelled "
            "texts that it has not seen."
        )
    return found.texts


def _remembered_splits(data: TrainingData, config: Config, options: ReadOptions) -> Splits:
    """Read the training data of a saved model again and reproduce the split of its training run.

    Raises DataError if the data cannot be found.
    """
    facts = data.facts
    source = _checked_source(facts.get("source"))
    rest = _leave_out_again(_reader(source, data.layout, config, options)("train"), data)
    is_split = facts.get("test_texts") and not _has_own_test(data)
    splits = _repeat_split(rest, data) if is_split else Splits(rest, None, rest)
    if splits is None:
        raise DataError(f"{source}: not the file that the model was trained on.")
    if dataset_fingerprint(splits.train) != facts.get("fingerprint"):
        raise DataError(f"{source}: has changed since the model was trained.")
    return splits


def _checked_source(source: str | None) -> str:
    """Return the data source of a saved model; raise DataError if it cannot be read again."""
    if source is None or source == "-":
        raise DataError("the model does not remember a file of its training data.")
    if is_special_file(Path(source)):
        raise DataError(f"{source}: a pipe or device, which is not read again.")
    return source


def _has_own_test(data: TrainingData) -> bool:
    """Return whether the saved model was tested on a separate test set.

    Otherwise the test texts were held out from the training data.
    """
    return "test_source" in data.facts or has_test_split(str(data.facts.get("source", "-")))


def _remembered_test(
    data: TrainingData, splits: Splits | None, config: Config, options: ReadOptions
) -> Dataset:
    """Return the test set of a saved model's training run; raise DataError if it is missing."""
    facts = data.facts
    source = _checked_source(facts.get("test_source") or facts.get("source"))
    if not facts.get("test_texts") or "test_fingerprint" not in facts:
        raise DataError(f"{source}: no texts were held out for testing.")
    if _has_own_test(data):
        test = _reader(source, data.layout, config, options)(
            "train" if "test_source" in facts else "test"
        )
    else:
        test = (splits or _remembered_splits(data, config, options)).test
    if dataset_fingerprint(test) != facts["test_fingerprint"]:
        raise DataError(f"{source}: has changed since the model was trained.")
    return test
