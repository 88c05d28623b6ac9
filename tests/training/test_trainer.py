from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import Split, stratified_split
from lamatext.data.text_encoder import TextEncoder
from lamatext.errors import ConfigError, DataError
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from lamatext.settings import Recipe
from lamatext.training import preparation
from lamatext.training.preparation import tokenize_texts
from lamatext.training.trainer import (
    TrainedModel,
    class_weights,
    pick_device,
    train,
    train_tokens,
)
from tests.corpora import TINY, reviews

CLASSES = ("neg", "pos")


def dataset(texts: Sequence[str], labels: Sequence[str]) -> Dataset:
    column = pa.chunked_array([pa.array(texts, pa.large_string())])
    return Dataset(column, pa.chunked_array([pa.array(labels, pa.string())]), "made up")


def texts(count: int, *, seed: int = 0) -> Dataset:
    return dataset(*reviews(count, seed=seed))


def recipe(**values: object) -> Recipe:
    settings = TINY | {key.replace("__", "."): value for key, value in values.items()}
    return resolve_recipe(recipe="default", values=settings)


def run(
    data: Dataset, validation: Dataset | None = None, *, asked: Recipe | None = None, **more: Any
) -> TrainedModel:
    return train(data, validation, asked or recipe(), classes=CLASSES, device="cpu", **more)


def same_weights(one: TrainedModel, other: TrainedModel) -> bool:
    a, b = one.network.state_dict(), other.network.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def vocabulary(trained: TrainedModel) -> Sequence[str]:
    assert isinstance(trained.encoder, TextEncoder)
    return trained.encoder.vocabulary.words


@pytest.mark.parametrize("vectors", ["random", "word2vec"])
def test_a_seed_makes_two_runs_bit_identical(
    vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = recipe(text__word_vectors=vectors, text__word2vec_epochs=2)
    runs = []
    for number in range(2):
        monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / str(number)))
        runs.append(run(texts(60), asked=asked))

    assert same_weights(*runs)


def test_another_seed_gives_other_weights() -> None:
    assert not same_weights(run(texts(40)), run(texts(40), asked=recipe(seed=1)))


def test_the_vocabulary_comes_from_the_training_texts_alone() -> None:
    held_out = dataset(["unheard", "of"], CLASSES)

    trained = run(texts(40), held_out)

    assert "film" in vocabulary(trained)
    assert "unheard" not in vocabulary(trained)


def test_words_of_held_out_rows_are_not_counted() -> None:
    rows, labels = reviews(40)
    _, held_out = stratified_split(labels, (0.9, 0.1), recipe().seed)
    for row in held_out:
        rows[row] += " onlyhere"

    assert len(held_out)
    assert "onlyhere" not in vocabulary(run(dataset(rows, labels)))


def test_a_second_run_reads_words_and_vectors_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    asked = recipe(text__word_vectors="word2vec", text__word2vec_epochs=1)
    first = run(texts(40), asked=asked)

    def must_not(*_: object, **__: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(preparation, "tokenize", must_not)
    monkeypatch.setattr(preparation, "make_vectors", must_not)
    second = run(texts(40), asked=asked)

    assert same_weights(first, second)
    assert vocabulary(first) == vocabulary(second)


def test_a_damaged_cache_does_not_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    first = run(texts(40))
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:20])

    assert same_weights(first, run(texts(40)))


def test_a_finished_checkpoint_gives_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    first, again = (run(texts(40), checkpoint=path) for _ in range(2))

    assert same_weights(first, again)
    assert first.history == again.history


@pytest.mark.parametrize(("seed", "rate"), [(1, 0.01), (0, 0.02)])
def test_a_checkpoint_of_other_data_or_settings_is_refused(
    tmp_path: Path, seed: int, rate: float
) -> None:
    path = tmp_path / "run.safetensors"
    run(texts(40), asked=recipe(training__learning_rate=0.01), checkpoint=path)

    with pytest.raises(ConfigError, match="other data or settings"):
        run(texts(40, seed=seed), asked=recipe(training__learning_rate=rate), checkpoint=path)


def test_with_too_few_texts_the_training_set_is_the_validation_set() -> None:
    with pytest.warns(UserWarning, match="4 texts are too few to hold out a validation set"):
        trained = run(texts(4))

    assert len(trained.history) == 2


def test_validation_texts_of_one_class_are_reported() -> None:
    validation = dataset(["a good film", "a great film"], ["pos", "pos"])

    with pytest.warns(UserWarning, match="made up: 2 texts, all with the label 'pos'"):
        run(texts(40), validation)


@pytest.mark.parametrize("ngrams", [False, True])
def test_texts_without_a_word_are_trained_on(ngrams: bool) -> None:
    empty = dataset([""] * 20, CLASSES * 10)
    asked = recipe(text__word_vectors="word2vec", text__word2vec_epochs=1, ngrams__enabled=ngrams)

    trained = run(empty, asked=asked)

    assert len(trained.history) == 2
    assert trained.ngrams is None


def test_balanced_class_weights_equal_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.array([0, 0, 0, 1, 2, 2])

    found = class_weights("balanced", labels, ["a", "b", "c"])

    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert found is not None
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_class_without_a_given_weight_has_weight_one() -> None:
    found = class_weights({"b": 3.0}, np.array([0, 1]), ["a", "b"])

    assert found is not None
    assert found.tolist() == [1, 3]


def test_a_weight_for_an_unknown_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="names the class 'c', which is not among the labels"):
        class_weights({"c": 3.0}, np.array([0, 1]), ["a", "b"])


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "mps", "", "cuda:x"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"device .*Use auto"):
        pick_device(name)


def test_auto_picks_an_available_device() -> None:
    assert pick_device("auto").type in ("cpu", "cuda")
    assert pick_device("cpu").type == "cpu"


@pytest.mark.parametrize("ngrams", [False, True])
def test_training_on_tokens_equals_training_on_texts(ngrams: bool) -> None:
    data, asked = texts(60), recipe(ngrams__enabled=ngrams, storage="int8")
    labels = LabelEncoder(CLASSES).encode(data.require_labels())
    split = Split(*stratified_split(labels, (0.9, 0.1), asked.seed))
    tokens = tokenize_texts(data.texts, asked.text, SILENT)

    expected = run(data, asked=asked)
    trained = train_tokens(tokens, labels, split, asked, classes=CLASSES, device="cpu")

    assert same_weights(trained, expected)
    assert trained.validation_accuracy == expected.validation_accuracy
    assert trained.scales == expected.scales
    assert (trained.ngrams is not None) == ngrams
    if trained.ngrams is not None and expected.ngrams is not None:
        for one, other in zip(trained.ngrams.tables, expected.ngrams.tables, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)


def test_given_word_vectors_are_the_initial_embedding() -> None:
    data, asked = texts(40), recipe(training__learning_rate=1e-9)
    labels = LabelEncoder(CLASSES).encode(data.require_labels())
    rows = np.arange(40)
    tokens = tokenize_texts(data.texts, asked.text, SILENT)
    vectors = np.random.default_rng(0).normal(size=(len(tokens.types) + 2, 8)).astype(np.float32)

    trained = train_tokens(
        tokens, labels, Split(rows, rows), asked, classes=CLASSES, word_vectors=vectors
    )

    found = trained.network.state_dict()["embedding.weight"].numpy()
    np.testing.assert_allclose(found, vectors, atol=1e-6)


def test_equal_sample_weights_change_almost_nothing() -> None:
    asked = recipe(ngrams__enabled=True)

    plain, weighted = (
        run(texts(40), asked=asked),
        run(texts(40), asked=asked, sample_weight=[1] * 40),
    )

    for one, other in zip(plain.network.parameters(), weighted.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert plain.ngrams is not None
    assert weighted.ngrams is not None
    np.testing.assert_array_equal(plain.ngrams.tables[0].weights, weighted.ngrams.tables[0].weights)


def test_texts_of_weight_zero_are_not_learned_from() -> None:
    """Every second text has a wrong label and the weight 0."""
    rows, labels = reviews(120)
    wrong = ["neg" if label == "pos" else "pos" for label in labels]
    weights = np.repeat([1, 0], 120)
    asked = recipe(ngrams__enabled=True, training__epochs=8, training__learning_rate=0.02)
    validation = texts(40, seed=1)

    trained = run(
        dataset(rows + rows, labels + wrong), validation, asked=asked, sample_weight=weights
    )

    assert trained.validation_accuracy >= 0.95
    assert trained.history[-1].loss < 0.3


def test_another_sample_weight_is_another_run_for_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(texts(40), checkpoint=path, sample_weight=np.ones(40))

    with pytest.raises(ConfigError, match="other data or settings"):
        run(texts(40), checkpoint=path, sample_weight=np.full(40, 2.0))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 39, r"shape \(39,\), expected \(40,\)"),
        ([1.0] * 39 + [-1.0], r"sample_weight\[39\] is -1"),
        ([1.0] * 39 + [float("nan")], r"sample_weight\[39\] is nan, expected a finite number"),
        ([float("inf")] + [1.0] * 39, r"sample_weight\[0\] is inf, expected a finite number"),
        ([1e37] * 40, r"add up to 4e\+38, expected at most 1e\+30. Divide all of them"),
        ([0.0, 1.0] * 20, "every training text of the class 'neg' has the weight 0"),
    ],
)
def test_invalid_sample_weights_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        run(texts(40), sample_weight=weights)
