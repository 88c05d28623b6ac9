"""Distillation: a student network learns a teacher's probabilities instead of labels.

The student minimizes τ² · CE(softmax(z / τ), p_τ), where z are its logits and p_τ the teacher's
probabilities at the distillation temperature τ (Hinton et al. 2015). If a text may have several
labels, it minimizes τ² · BCE(sigmoid(z / τ), p_τ), summed over the labels.
Shapes: n labelled texts, k texts without labels, C classes.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.labels import Targets
from lamatext.data.token_ids import Indices
from lamatext.errors import DataError
from lamatext.probabilities import sigmoid, softmax
from lamatext.settings import Recipe
from lamatext.training.auto_settings import FEW_WORDS

Probabilities = NDArray[np.float32]  # (texts, C)

STUDENT_EPOCHS = 4  # over the texts and their variants
LONGER_EPOCHS = 8  # with fewer than FEW_VARIANTS per text, labelled or not
FEW_VARIANTS = 3
STUDENT_BATCH_SIZE = 128
MANY_LABELS = 5_000  # labelled texts from which on n-grams do not learn from unlabelled texts


@dataclass(frozen=True, slots=True)
class TeacherLabels:
    """Distillation targets: a teacher's probabilities for labelled and unlabelled texts."""

    labelled: Probabilities  # (n, C): of the training texts
    more_texts: pa.ChunkedArray  # k texts without labels: the unlabelled ones, then the variants
    more: Probabilities  # (k, C): of these texts
    unlabelled: int  # how many of the k texts are not variants

    def check(self, texts: int, classes: int) -> None:
        """Raise DataError if the teacher's probabilities have the wrong shape."""
        expected = {"labelled": (texts, classes), "more": (len(self.more_texts), classes)}
        for name, shape in expected.items():
            found = getattr(self, name).shape
            if found != shape:
                raise DataError(f"teacher probabilities ({name}) are {found}, expected {shape}.")

    def unlabelled_rows(self, rows: int) -> Indices:
        """Return the row indices of the unlabelled texts, whose only labels are the teacher's.

        ``rows`` is the total number of rows; the rows of ``more_texts`` come last.
        """
        first = rows - len(self.more_texts)
        return np.arange(first, first + self.unlabelled)

    def predictions(self, *, multi_label: bool) -> Targets:
        """Return the teacher's predictions for texts without labels, as hard labels."""
        return (self.more >= 0.5).astype(np.float32) if multi_label else self.more.argmax(axis=1)


def soften_classes(probabilities: Probabilities, temperature: float) -> Probabilities:
    """Soften a teacher's class probabilities for distillation to softmax(log(p) / τ)."""
    logits = _log(probabilities) / temperature
    return softmax(logits).astype(np.float32)


def soften_labels(probabilities: Probabilities, temperature: float) -> Probabilities:
    """Soften a teacher's multi-label probabilities for distillation to sigmoid(logit(p) / τ)."""
    logits = (_log(probabilities) - _log(1 - probabilities.astype(np.float64))) / temperature
    return sigmoid(logits).astype(np.float32)


def _log(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the logarithm of a teacher's probabilities, which are clipped to avoid log(0)."""
    return np.log(np.maximum(probabilities.astype(np.float64), 1e-12))


def student_recipe(recipe: Recipe, labels: TeacherLabels, texts: pa.ChunkedArray) -> Recipe:
    """Resolve the ``auto`` settings of a student's recipe that depend on the distillation data.

    With pretrained word vectors and many labels, the student's vocabulary includes words that occur
    only once in the labelled texts, as its teacher's does. Text variants multiply the number of
    texts, so a few epochs of large mini-batches are enough; with few variants, there are more
    epochs. Without variants, the rules for ordinary training apply.
    """
    values: dict[str, object] = {}
    knows_rare_words = recipe.text.added_words and len(labels.labelled) >= MANY_LABELS
    if recipe.text.min_count == "auto" and knows_rare_words:
        words = pc.sum(pc.count_substring(texts, " ")).as_py()
        if words < FEW_WORDS:  # otherwise too many words would be added
            values["text.min_count"] = 1
    variants = len(labels.more_texts) - labels.unlabelled
    if variants and recipe.training.epochs == "auto":
        is_few = variants < FEW_VARIANTS * (len(labels.labelled) + labels.unlabelled)
        values["training.epochs"] = LONGER_EPOCHS if is_few else STUDENT_EPOCHS
    if variants and recipe.training.batch_size == "auto":
        values["training.batch_size"] = STUDENT_BATCH_SIZE
    return recipe.with_values(values, where="distillation")
