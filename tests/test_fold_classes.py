"""Cross-validation folds that lack a class: validation data, teachers and class weights fit."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.probability_file import ProbabilityTable
from lamatext.fold_classes import recipe_without, teacher_without, validation_of_classes
from lamatext.pipeline import (
    DataSources,
    FoldPrediction,
    Splits,
    TeacherOptions,
    fit_recipe_fold,
    read_splits,
)
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from lamatext.settings import Recipe
from tests.corpora import TINY, reviews

RECIPE = resolve_recipe(values={**TINY, "training.epochs": 1, "distillation.variants": 0})
CLASSES = ("neg", "neutral", "pos")
ONCE = "neither good nor bad"


def write_rows(path: Path, rows: list[tuple[str, ...]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def labelled_rows(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Reviews, and one text with a label of its own."""
    return [*zip(*reviews(count, seed=seed), strict=True), (ONCE, "neutral")]


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_rows(tmp_path / "data.csv", [("text", "label"), *labelled_rows(60)])


def read(sources: DataSources) -> Splits:
    with pytest.warns(
        UserWarning, match="1 label seen once counts as errors in the cross-validation"
    ):
        return read_splits(sources, RECIPE)


def fit_fold_without_neutral(splits: Splits, recipe: Recipe = RECIPE) -> FoldPrediction:
    """Train and predict the fold in which the only text with the label neutral is a test text."""
    row = splits.train.require_labels().to_pylist().index("neutral")
    [(train, test)] = [fold for fold in splits.folds if row in fold[1]]
    data = splits.train
    return fit_recipe_fold(recipe, splits, "cpu", data.take(train), data.take(test), SILENT)


def test_a_fold_leaves_out_validation_texts_of_a_class_that_it_lacks(
    data: str, tmp_path: Path
) -> None:
    rows = [("text", "label"), *labelled_rows(20, seed=5)[:-1], ("so so", "neutral")]
    validation = write_rows(tmp_path / "validation.csv", rows)
    splits = read(DataSources(data, validation=validation))

    prediction = fit_fold_without_neutral(splits)

    assert prediction.classes == ["neg", "pos"]
    assert splits.validation is not None
    assert len(splits.validation) == 21  # the saved model keeps them all


def test_a_fold_learns_from_a_saved_model_that_knows_a_class_more(
    data: str, tmp_path: Path
) -> None:
    texts, labels = zip(*labelled_rows(60), strict=True)
    with pytest.warns(UserWarning, match="seen once"):
        model = TextClassifier(recipe=RECIPE, device="cpu").fit(texts, labels)
    folder = model.save(tmp_path / "teacher")
    splits = read(DataSources(data, teacher=TeacherOptions(str(folder))))

    prediction = fit_fold_without_neutral(splits)
    teacher = teacher_without(str(folder), CLASSES, {"neutral"}, multi_label=False)

    assert prediction.classes == ["neg", "pos"]
    neg, _, pos = model.predict_proba([ONCE])[0]
    expected = [[neg / (neg + pos), pos / (neg + pos)]]
    np.testing.assert_allclose(teacher.predict_proba([ONCE]), expected, atol=1e-6)  # type: ignore[attr-defined]


def test_a_fold_learns_from_a_file_of_probabilities_with_a_class_more(
    data: str, tmp_path: Path
) -> None:
    rows = [
        (text, *("0.8" if label == name else "0.1" for name in CLASSES))
        for text, label in labelled_rows(60)
    ]
    table = write_rows(tmp_path / "probabilities.csv", [("text", *CLASSES), *rows])
    splits = read(DataSources(data, teacher=TeacherOptions(table)))

    prediction = fit_fold_without_neutral(splits)

    assert prediction.classes == ["neg", "pos"]


def test_a_fold_leaves_out_the_weight_of_a_class_that_it_lacks(data: str) -> None:
    recipe = RECIPE.with_values({"training.class_weight": {"neutral": 3.0, "neg": 2.0}})

    prediction = fit_fold_without_neutral(read(DataSources(data)), recipe)

    assert prediction.classes == ["neg", "pos"]
    left = recipe_without(recipe, {"neutral"}).training.class_weight
    assert left == {"neg": 2.0}
    assert recipe_without(RECIPE, {"neutral"}) is RECIPE


def dataset(labels: list[str] | list[list[str]]) -> Dataset:
    texts = pa.chunked_array([pa.array([f"text {n}" for n in range(len(labels))])])
    return Dataset(texts, pa.chunked_array([pa.array(labels)]), "validation.csv")


@pytest.mark.filterwarnings("ignore:.* label that the training data lacks")
def test_validation_texts_keep_the_labels_that_the_fold_knows() -> None:
    known = LabelEncoder(("neg", "pos"))

    single = validation_of_classes(dataset(["neg", "neutral", "pos"]), known)
    several = validation_of_classes(dataset([["neg", "neutral"], ["neutral"], []]), known)

    assert single is not None
    assert single.texts.to_pylist() == ["text 0", "text 2"]
    assert several is not None
    assert several.require_labels().to_pylist() == [["neg"], [], []]


def test_a_fold_that_knows_no_label_of_the_validation_texts_holds_texts_out_itself() -> None:
    known = LabelEncoder(("neg", "pos"))

    assert validation_of_classes(dataset(["neutral", "neutral"]), known) is None
    assert validation_of_classes(None, known) is None


def test_probabilities_of_the_other_classes_sum_to_one_again() -> None:
    rows = np.array([[0.2, 0.6, 0.2], [0.3, 0.1, 0.6], [0.0, 1.0, 0.0]], np.float32)
    table = ProbabilityTable("votes.csv", {"a": 0, "b": 1, "c": 2}, rows)

    single = teacher_without(table, CLASSES, {"neutral"}, multi_label=False)
    several = teacher_without(table, CLASSES, {"neutral"}, multi_label=True)

    assert isinstance(single, ProbabilityTable)
    assert isinstance(several, ProbabilityTable)
    expected = [[0.5, 0.5], [0.3 / 0.9, 0.6 / 0.9], [0.5, 0.5]]
    np.testing.assert_allclose(single.look_up(["a", "b", "c"]), expected, atol=1e-6)
    np.testing.assert_array_equal(several.look_up(["a", "b", "c"]), rows[:, [0, 2]])


def test_an_encoder_is_trained_on_the_labels_of_the_fold() -> None:
    assert teacher_without("minilm", CLASSES, {"neutral"}, multi_label=False) == "minilm"
    assert teacher_without(None, CLASSES, {"neutral"}, multi_label=False) is None
