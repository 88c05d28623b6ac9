"""Cross-validation folds whose training texts lack a class, such as a label that occurs once.

Validation data, teachers and class weights of the whole data are restricted to the classes of the
fold. Shapes: n texts, C classes.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder, class_counts
from lamatext.data.probability_file import ProbabilityTable
from lamatext.runtime.predictor import Predictor
from lamatext.settings import Recipe

Probabilities = NDArray[np.float32]  # (n, C)


def validation_of_classes(validation: Dataset | None, classes: LabelEncoder) -> Dataset | None:
    """Drop the labels of the validation data that are not classes of the cross-validation fold.

    Return None, so that the fold holds out texts itself, if no label is left.
    """
    if validation is None:
        return None
    labels = list(class_counts(validation))
    if labels and len(classes.unknown(labels)) == len(labels):
        return None
    return classes.drop_unknown(validation)


def recipe_without(recipe: Recipe, missing: AbstractSet[str]) -> Recipe:
    """Return the recipe without the class weights of the classes that the fold lacks."""
    weights = recipe.training.class_weight
    if not isinstance(weights, Mapping):
        return recipe
    kept = {label: weight for label, weight in weights.items() if label not in missing}
    return recipe.with_values({"training.class_weight": kept})


def teacher_without(
    teacher: object, classes: Iterable[str], missing: AbstractSet[str], *, multi_label: bool
) -> object:
    """Restrict a teacher to the classes of the training texts of a cross-validation fold.

    Args:
        teacher: as the pipeline opens it; an encoder is returned as it is, because each fold trains
            it on its own labels.
        classes: the classes of the whole data, in the order of a probability file's columns.
        missing: those that the fold lacks.
        multi_label: whether a text may have several labels, so that a row need not sum to 1.
    """
    from lamatext.training.teachers import is_encoder_name

    if isinstance(teacher, ProbabilityTable):
        columns = _columns_without(classes, missing)
        selected = _select_classes(teacher.probabilities, columns, multi_label=multi_label)
        return replace(teacher, probabilities=selected)
    if teacher is None or is_encoder_name(teacher):
        return teacher
    return _RestrictedModel(Predictor.load(str(teacher)), missing)


class _RestrictedModel:
    """Saved model as the teacher of a cross-validation fold that lacks some of its classes."""

    def __init__(self, model: Predictor, missing: AbstractSet[str]) -> None:
        self._model = model
        self._columns = _columns_without(map(str, model.classes_.tolist()), missing)
        self.classes_: NDArray[Any] = model.classes_[self._columns]

    def predict_proba(self, texts: Sequence[str]) -> Probabilities:
        """Return the probabilities of the remaining classes for each text."""
        is_multi_label = self._model.thresholds is not None
        probabilities = self._model.predict_proba(texts)
        return _select_classes(probabilities, self._columns, multi_label=is_multi_label)


def _columns_without(classes: Iterable[str], missing: AbstractSet[str]) -> list[int]:
    return [column for column, label in enumerate(classes) if label not in missing]


def _select_classes(
    probabilities: Probabilities, columns: Sequence[int], *, multi_label: bool
) -> Probabilities:
    """Return the probabilities of some classes which, with one label per text, sum to 1 again.

    A row that gives the other classes all its probability becomes uniform.
    """
    selected: Probabilities = probabilities[:, list(columns)]
    if multi_label:
        return selected
    totals = selected.sum(axis=1, keepdims=True)
    result = np.full_like(selected, 1 / len(columns))
    np.divide(selected, totals, out=result, where=totals > 0)
    return result
