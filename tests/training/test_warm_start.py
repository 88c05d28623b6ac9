"""Validation of a continued model: only texts that it was not trained on show how good it is."""

import numpy as np
import pyarrow as pa
import pytest

from lamatext import TextClassifier
from lamatext.data.splits import Split
from lamatext.saved.model_io import SavedModel
from lamatext.training.warm_start import validate_on_new_texts
from tests.corpora import TINY, reviews

TEXTS, LABELS = reviews(200)


@pytest.fixture(scope="module")
def start() -> SavedModel:
    """A model that was trained on the first 100 texts."""
    classifier = TextClassifier(settings=TINY, device="cpu", random_state=0)
    return classifier.fit(TEXTS[:100], LABELS[:100])._saved_model()


def split_with(
    old: int, new: int, *, validation: int, start: SavedModel, multi_label: bool = False
) -> Split:
    """Return the split of some old and new texts, of which every third is a validation text."""
    texts = pa.chunked_array([TEXTS[:old] + TEXTS[100 : 100 + new]], pa.large_string())
    rows = np.arange(len(texts))
    held_out = rows[::3][-validation:]
    split = Split(np.setdiff1d(rows, held_out), held_out)
    return validate_on_new_texts(split, texts, start, multi_label=multi_label)


def test_known_validation_texts_are_trained_on(start: SavedModel) -> None:
    split = split_with(40, 90, validation=44, start=start)

    assert (split.validation >= 40).all()
    assert len(split.validation) == 30
    assert np.union1d(split.train, split.validation).tolist() == list(range(130))
    assert split.is_known is not None
    assert np.flatnonzero(split.is_known).tolist() == list(range(40))
    assert not split.is_mostly_known


def test_with_too_few_new_texts_the_validation_texts_are_trained_on(start: SavedModel) -> None:
    split = split_with(100, 30, validation=44, start=start)

    assert len(split.validation) == 44
    assert split.train.tolist() == list(range(130))
    assert split.is_mostly_known


def test_with_several_labels_per_text_too_few_new_texts_leave_the_validation_set_as_it_is(
    start: SavedModel,
) -> None:
    split = split_with(100, 30, validation=44, start=start, multi_label=True)

    assert len(split.validation) == 44
    assert not np.isin(split.validation, split.train).any()
    assert split.is_mostly_known


def test_a_few_known_texts_change_nothing(start: SavedModel) -> None:
    split = split_with(4, 100, validation=30, start=start)

    assert split.is_known is None
    assert len(split.validation) == 30
    assert not np.isin(split.validation, split.train).any()


def test_without_a_sketch_all_texts_are_taken_for_new(start: SavedModel) -> None:
    start.facts["data"].pop("sketch")

    split = split_with(100, 30, validation=44, start=start)

    assert not np.isin(split.validation, split.train).any()
