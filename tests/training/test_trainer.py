from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from lamatext.data.text_encoder import TextEncoder
from lamatext.errors import ConfigError
from lamatext.progress import Progress
from lamatext.recipes import resolve_recipe
from lamatext.settings import Recipe
from lamatext.training import preparation
from lamatext.training.preparation import Texts
from lamatext.training.trainer import Trained, class_weights, pick_device, train
from tests.corpora import TINY, reviews


def texts(count: int, *, seed: int = 0) -> Texts:
    made, labels = reviews(count, seed=seed)
    numbers = np.array([int(label == "pos") for label in labels])
    return Texts(pa.chunked_array([made], pa.large_string()), numbers)


def recipe(**values: object) -> Recipe:
    given = TINY | {key.replace("__", "."): value for key, value in values.items()}
    return resolve_recipe(recipe="default", values=given)


def run(
    made: Texts,
    valid: Texts | None = None,
    *,
    asked: Recipe | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> Trained:
    return train(
        made,
        valid,
        asked or recipe(),
        names=["neg", "pos"],
        device="cpu",
        checkpoint=checkpoint,
        progress=progress or Progress(),
    )


def same_weights(one: Trained, other: Trained) -> bool:
    a, b = one.network.state_dict(), other.network.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def vocabulary(trained: Trained) -> Sequence[str]:
    assert isinstance(trained.encoder, TextEncoder)
    return trained.encoder.vocabulary.words


@pytest.mark.parametrize("vectors", ["random", "word2vec"])
def test_a_seed_makes_two_runs_bit_identical(
    vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = recipe(text__vectors=vectors, text__vector_epochs=2)
    runs = []
    for number in range(2):
        monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / str(number)))
        runs.append(run(texts(60), asked=asked))

    assert same_weights(*runs)


def test_another_seed_gives_other_weights() -> None:
    assert not same_weights(run(texts(40)), run(texts(40), asked=recipe(seed=1)))


def test_the_vocabulary_comes_from_the_training_texts_alone() -> None:
    held_out = Texts(pa.chunked_array([["unheard", "of"]], pa.large_string()), np.array([0, 1]))

    trained = run(texts(40), held_out)

    assert "film" in vocabulary(trained)
    assert "unheard" not in vocabulary(trained)


def test_words_of_held_out_rows_are_not_counted() -> None:
    made = texts(40)
    split = preparation.joined(made, None, recipe())
    rows = made.texts.to_pylist()
    for row in split.valid:
        rows[row] += " onlyhere"
    marked = Texts(pa.chunked_array([rows], pa.large_string()), made.labels)

    assert "onlyhere" not in vocabulary(run(marked))


def test_a_second_run_takes_its_words_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    asked = recipe(text__vectors="word2vec", text__vector_epochs=1)
    first = run(texts(40), asked=asked)

    def must_not(*_: object, **__: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(preparation, "tokenize", must_not)
    monkeypatch.setattr(preparation, "make_vectors", must_not)
    second = run(texts(40), asked=asked)

    assert same_weights(first, second)
    assert vocabulary(first) == vocabulary(second)


def test_a_damaged_cache_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    run(texts(40), asked=recipe(training__rate=0.01), checkpoint=path)

    with pytest.raises(ConfigError, match="other data or settings"):
        run(texts(40, seed=seed), asked=recipe(training__rate=rate), checkpoint=path)


def test_too_few_texts_to_hold_out_stop_by_themselves() -> None:
    with pytest.warns(UserWarning, match="4 texts are too few to hold out a validation set"):
        trained = run(texts(4))

    assert len(trained.history) == 2


@pytest.mark.parametrize("ngrams", [False, True])
def test_texts_without_a_word_are_trained_on(ngrams: bool) -> None:
    empty = Texts(pa.chunked_array([[""] * 20], pa.large_string()), np.arange(20) % 2)
    asked = recipe(text__vectors="word2vec", text__vector_epochs=1, wide__use=ngrams)

    trained = run(empty, asked=asked)

    assert len(trained.history) == 2
    assert trained.ngrams is None


def test_balanced_weights_are_scikit_learns() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.array([0, 0, 0, 1, 2, 2])

    found = class_weights("balanced", labels, ["a", "b", "c"])

    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert found is not None
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_weights_by_name_are_one_where_none_is_given() -> None:
    found = class_weights({"b": 3.0}, np.array([0, 1]), ["a", "b"])

    assert found is not None
    assert found.tolist() == [1, 3]


def test_a_weight_for_an_unknown_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="names the class 'c', which the labels have not"):
        class_weights({"c": 3.0}, np.array([0, 1]), ["a", "b"])


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "mps", "", "cuda:x"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"device .*Use auto"):
        pick_device(name)


def test_auto_is_a_device() -> None:
    assert pick_device("auto").type in ("cpu", "cuda")
    assert pick_device("cpu").type == "cpu"
