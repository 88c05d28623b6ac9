"""Distillation: the loss, the softened probabilities, and a student that follows its teacher."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.text_encoder import TextEncoder
from lamatext.errors import DataError
from lamatext.nn.network import Output
from lamatext.recipes import resolve_recipe
from lamatext.settings import ModelSettings, Recipe, TrainingSettings
from lamatext.training.distillation import (
    TeacherLabels,
    soften_classes,
    soften_labels,
    student_recipe,
)
from lamatext.training.loop import LoopSettings, training_loss
from lamatext.training.trainer import train
from tests.corpora import TINY, reviews

CLASSES = ("neg", "pos")
RECIPE = resolve_recipe(recipe="default", values=TINY)


def column(texts: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def dataset(texts: list[str], labels: list[str]) -> Dataset:
    return Dataset(column(texts), pa.chunked_array([pa.array(labels, pa.string())]), "made up")


def sure(labels: list[str], *, reverse: bool = False) -> NDArray[np.float32]:
    positive = np.array([label == "pos" for label in labels]) != reverse
    return np.where(positive[:, None], [[0.02, 0.98]], [[0.98, 0.02]]).astype(np.float32)


def lesson(
    labelled: NDArray[np.float32],
    texts: list[str] | None = None,
    more: NDArray[np.float32] | None = None,
    unlabelled: int = 0,
) -> TeacherLabels:
    none = np.zeros((0, 2), np.float32)
    return TeacherLabels(labelled, column(texts or []), none if more is None else more, unlabelled)


def test_softened_probabilities_are_a_softmax_at_the_temperature() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (5, 4))

    def softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
        powers = np.exp(values)
        scaled: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return scaled

    softened = soften_classes(softmax(logits).astype(np.float32), 2.0)
    np.testing.assert_allclose(softened, softmax(logits / 2), atol=1e-5)


def test_a_probability_of_zero_stays_finite_when_softened() -> None:
    softened = soften_classes(np.array([[1.0, 0.0]], np.float32), 2.0)
    assert np.isfinite(softened).all()
    assert softened.sum() == pytest.approx(1)


def test_the_loss_of_a_student_is_the_scaled_cross_entropy_at_the_temperature() -> None:
    logits = torch.randn(6, 3, dtype=torch.float64)
    targets = torch.rand(6, 3, dtype=torch.float64)
    targets /= targets.sum(1, keepdim=True)
    settings = LoopSettings(
        ModelSettings(), TrainingSettings(), 0, torch.device("cpu"), temperature=2.0
    )
    output = Output(logits, torch.zeros(6, 1, 1), None, torch.zeros(6, 1, 1))
    by_hand = -4 * (targets * torch.log_softmax(logits / 2, dim=1)).sum(1).mean()
    assert float(training_loss(output, targets, settings)) == pytest.approx(float(by_hand))
    weights = torch.tensor([1.0, 0, 0, 0, 0, 0], dtype=torch.float64)
    first = -4 * (targets * torch.log_softmax(logits / 2, dim=1)).sum(1)[0]
    weighted = training_loss(output, targets, settings, weights)
    assert float(weighted) == pytest.approx(float(first))


def test_softened_labels_are_sigmoids_at_the_temperature() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (5, 4))
    softened = soften_labels((1 / (1 + np.exp(-logits))).astype(np.float32), 2.0)
    np.testing.assert_allclose(softened, 1 / (1 + np.exp(-logits / 2)), atol=1e-5)
    sure = soften_labels(np.array([[1.0, 0.0]], np.float32), 2.0)
    assert np.isfinite(sure).all()
    assert sure[0, 0] > 0.999


def test_with_several_labels_the_loss_of_a_student_sums_the_labels_at_the_temperature() -> None:
    logits, targets = torch.randn(6, 3).double(), torch.rand(6, 3).double()
    settings = LoopSettings(
        ModelSettings(),
        TrainingSettings(),
        0,
        torch.device("cpu"),
        multi_label=True,
        temperature=2.0,
    )
    output = Output(logits, torch.zeros(6, 1, 1), None, torch.zeros(6, 1, 1))
    p = torch.sigmoid(logits / 2)
    by_hand = -4 * (targets * p.log() + (1 - targets) * (1 - p).log()).sum(1).mean()
    assert float(training_loss(output, targets, settings)) == pytest.approx(float(by_hand))


def test_a_teacher_of_several_labels_predicts_those_with_at_least_one_half() -> None:
    more = np.array([[0.9, 0.5], [0.1, 0.4]], np.float32)
    taught = lesson(np.zeros((0, 2), np.float32), ["one", "two"], more, unlabelled=2)
    assert taught.predictions(multi_label=True).tolist() == [[1, 1], [0, 0]]
    assert taught.predictions(multi_label=False).tolist() == [0, 1]


def test_a_student_follows_its_teacher_where_the_labels_disagree() -> None:
    texts, labels = reviews(120, seed=0)
    more, true = reviews(60, seed=1)
    asked = RECIPE.with_values({"ngrams.enabled": False, "training.epochs": 20})
    trained = train(
        dataset(texts, labels),
        dataset(more, ["neg" if label == "pos" else "pos" for label in true]),
        asked,
        classes=CLASSES,
        device="cpu",
        teacher_labels=lesson(sure(labels, reverse=True)),
    )
    rows = trained.encoder.encode(more)
    ids, lengths = (torch.from_numpy(array) for array in rows.pad(np.arange(len(more))))
    predicted = trained.network(ids, lengths).logits.argmax(1).numpy()
    is_positive = np.array([label == "pos" for label in true])
    assert (predicted != is_positive).mean() > 0.9


@pytest.mark.parametrize("many", [5_000, 60])
def test_words_of_unlabelled_texts_enter_the_vocabulary_unless_the_labels_are_many(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.training.trainer.MANY_LABELS", many)
    texts, labels = reviews(60, seed=0)
    asked = RECIPE.with_values({"text.min_count": 1})
    trained = train(
        dataset(texts, labels),
        dataset(*reviews(20, seed=2)),
        asked,
        classes=CLASSES,
        device="cpu",
        teacher_labels=lesson(
            sure(labels), ["quokka film", "zyzzyva film"], sure(["pos", "neg"]), unlabelled=1
        ),
    )
    assert isinstance(trained.encoder, TextEncoder)
    assert ("quokka" in trained.encoder.vocabulary.ids) == (many > 60)
    assert "zyzzyva" not in trained.encoder.vocabulary.ids  # of a variant


def test_probabilities_of_the_wrong_shape_are_an_error() -> None:
    texts, labels = reviews(60, seed=0)
    with pytest.raises(DataError, match=r"\(labelled\) are \(59, 2\), expected \(60, 2\)"):
        train(
            dataset(texts, labels),
            None,
            RECIPE,
            classes=CLASSES,
            device="cpu",
            teacher_labels=lesson(sure(labels[1:])),
        )


def test_variants_decide_the_automatic_epochs_and_batch_size_of_a_student() -> None:
    recipe = resolve_recipe(recipe="default")
    without = lesson(sure(["pos"]), ["one"], sure(["pos"]), unlabelled=1)
    assert student_recipe(recipe, without, column(["a"])) == recipe
    few = lesson(sure(["pos"]), ["one", "two"], sure(["pos"] * 2))
    changed = student_recipe(recipe, few, column(["a"]))
    assert (changed.training.epochs, changed.training.batch_size) == (8, 128)
    many = lesson(sure(["pos"]), ["one", "two", "three"], sure(["pos"] * 3))
    assert student_recipe(recipe, many, column(["a"])).training.epochs == 4
    unlabelled = lesson(sure(["pos"]), ["one", *"abc"], sure(["pos"] * 4), unlabelled=1)
    assert student_recipe(recipe, unlabelled, column(["a"])).training.epochs == 8


def test_a_student_with_many_labels_and_pretrained_vectors_reads_words_that_occur_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lamatext.training.distillation.MANY_LABELS", 3)
    monkeypatch.setattr("lamatext.training.distillation.FEW_WORDS", 10)
    recipe, three = resolve_recipe(recipe="student"), lesson(sure(["pos"] * 3))

    def min_count(recipe: Recipe, labels: TeacherLabels, text: str) -> object:
        return student_recipe(recipe, labels, column([text] * 3)).text.min_count

    assert min_count(recipe, three, "two words") == 1
    assert min_count(recipe, three, "more than ten words in all texts") == "auto"
    assert min_count(recipe, lesson(sure(["pos"] * 2)), "two words") == "auto"
    assert min_count(recipe.with_values({"text.min_count": 4}), three, "two words") == 4
    assert min_count(resolve_recipe(recipe="default"), three, "two words") == "auto"
