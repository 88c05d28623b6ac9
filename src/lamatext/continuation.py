"""Continued training: the scores of a model before and after it learned from new data.

The score is the accuracy or, if a text may have several labels, micro-F1. Both are 2·hits / size,
summed over the texts: for each text, hits is the number of correctly predicted labels and size is
the number of true labels plus the number of predicted labels. A label that the old model does not
know is an error.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from lamatext.data.dataset import Dataset, text_batches
from lamatext.metrics import AnyScores, Scores, accuracy_interval, micro_f1_interval
from lamatext.progress import SILENT, Progress, track_progress
from lamatext.runtime.predictor import Predictor

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """Scores of a model on one test set before and after continued training."""

    data: str  # the source of the test set
    is_old: bool  # whether it belongs to the data that the model was trained on before
    metric: str  # accuracy or micro-F1
    texts: int
    before: float
    before_interval: Interval
    after: float
    after_interval: Interval
    folds: int = 0  # of the cross-validation that gave ``after``; 0 for a test set

    @property
    def is_forgotten(self) -> bool:
        """Whether continued training has significantly lowered the score on the original data."""
        return self.is_old and self.after < self.before_interval[0]

    def as_dict(self) -> dict[str, Any]:
        """Return the scores before and after the continuation as a JSON-compatible dictionary."""
        lists = {name: list(getattr(self, name)) for name in ("before_interval", "after_interval")}
        return {**asdict(self), **lists}


def measure_changes(
    before: Path,
    after: Path,
    old: Sequence[Dataset],
    new: tuple[Dataset, AnyScores],
    progress: Progress = SILENT,
) -> list[ScoreChange]:
    """Score a model before and after continued training, on old and new test sets.

    Args:
        before: the folder of the model that was continued.
        after: the folder of the new model.
        old: test sets of the data that ``before`` was trained on.
        new: the test set of the new data, and the new model's scores on it.
        progress: receives a stage per model.
    """
    models = [Predictor.load(folder) for folder in (before, after)]
    changes = []
    for test in old:
        scores = [_score(model, test, progress) for model in models]
        changes.append(_change(test, *scores, is_old=True))
    test, known = new
    score_before = _score(models[0], test, progress)
    score_after = (
        (known.accuracy, known.accuracy_interval)
        if isinstance(known, Scores)
        else (known.micro_f1, known.micro_f1_interval)
    )
    return [*changes, _change(test, score_before, score_after, folds=known.folds)]


def _change(
    test: Dataset,
    before: tuple[float, Interval],
    after: tuple[float, Interval],
    *,
    is_old: bool = False,
    folds: int = 0,
) -> ScoreChange:
    metric = "micro-F1" if test.is_multi_label else "accuracy"
    return ScoreChange(test.source, is_old, metric, len(test), *before, *after, folds=folds)


def _score(model: Predictor, test: Dataset, progress: Progress) -> tuple[float, Interval]:
    """Compute the score, and its 95 % interval, of the model before or after continued training."""
    progress.stage(f"scoring on {test.source}", len(test))
    texts = chain.from_iterable(batch.to_pylist() for batch in text_batches(test.texts))
    predictions = model.predict(track_progress(texts, progress)).tolist()
    truth = test.require_labels().to_pylist()
    if not test.is_multi_label:
        names = [_name(label) for label in predictions]
        share = float(np.mean([name == label for name, label in zip(names, truth, strict=True)]))
        return share, accuracy_interval(share, len(test))
    rows = [
        (len({_name(label) for label in predicted} & set(labels)), len(labels) + len(predicted))
        for predicted, labels in zip(_label_lists(model, predictions), truth, strict=True)
    ]
    hits, sizes = np.array(rows, np.int64).T
    return float(2 * hits.sum() / max(sizes.sum(), 1)), micro_f1_interval(hits, sizes)


def _label_lists(model: Predictor, predictions: list[Any]) -> list[list[Any]]:
    if model.thresholds is None:  # one label per text
        return [[label] for label in predictions]
    if model.thresholds.form != "indicator":
        return predictions
    classes = model.classes_.tolist()
    return [[classes[i] for i, flag in enumerate(row) if flag] for row in predictions]


def _name(label: object) -> str:
    """Convert a predicted label to a string like the true labels, to score continued training."""
    return str(label).lower() if isinstance(label, bool) else str(label)
