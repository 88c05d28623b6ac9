"""Collection of the report's findings: predictions, examples, explanations, top words, speed.

The examples are texts behind each confusion, confident mistakes and doubtful labels.
Shapes: n texts, C classes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset, EvaluationData
from lamatext.data.labels import Targets
from lamatext.data.summary import Summary, summarize_dataset
from lamatext.explain.explanation import Explanation
from lamatext.explain.faithfulness import (
    MAX_TEXTS,
    MAX_TEXTS_SLOW,
    Faithfulness,
    is_slow,
    measure_faithfulness,
    sample_rows,
)
from lamatext.explain.top_words import TopWords, top_words
from lamatext.label_thresholds import reaches_threshold
from lamatext.metrics import AnyScores, Floats, MultiLabelScores, Numbers, Scores
from lamatext.progress import SILENT, Progress, track_progress
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.scoring import encode_test_labels, score_predictions, single_text_latencies
from lamatext.saved.format import folder_size, load_config, load_metrics, saved_recipe
from lamatext.saved.model_io import load_model, load_network
from lamatext.views.formatting import label_names
from lamatext.views.word_shading import contribution_strength, excerpt_segments

MAX_EXAMPLES = 420  # texts on the page, approximately
MAX_TOP_WORD_TEXTS = 1000  # texts explained to find the top words
OCCLUSION_DIVISOR, TRANSFORMER_DIVISOR = 6, 18  # explain fewer texts with models that are slower
TOP_WORDS = 15  # per class and head
ALL_TOP_WORDS = 900  # of all classes together

LISTED = 12  # doubtful labels, and as many other mistakes
PER_CELL = 8  # examples behind one cell of the confusion matrix
MAX_MATRIX_CLASSES = 20  # with more classes a confusion matrix is unreadable
MAX_PAIRS = 30  # confused pairs of classes listed instead
EXCERPT_WORDS = 70  # longer examples are shortened around their strongest words
FAINTEST_MARK = 0.2  # of the full strength; weaker words are not marked

Cell = tuple[int, int]  # true class, predicted class


@dataclass(frozen=True, slots=True)
class Speed:
    """Prediction speed on this machine, collected for the report."""

    texts_per_second: float
    one_text_ms: float  # median
    slow_text_ms: float  # 95th percentile


@dataclass(frozen=True)
class Examples:
    """Row indices of the example texts shown in the report, grouped by purpose."""

    cells: dict[Cell, list[int]]  # by true and predicted class, most confident first
    doubtful: list[int]  # labels that may be wrong, most doubtful first
    mistakes: list[int]  # other mistakes, most confident first

    @property
    def rows(self) -> list[int]:
        """Row indices of all example texts, sorted and without duplicates."""
        in_cells = {row for rows in self.cells.values() for row in rows}
        return sorted(in_cells | set(self.doubtful) | set(self.mistakes))


@dataclass(frozen=True)
class Findings:
    """All results collected for the report on one model and its test data."""

    folder: Path
    config: dict[str, Any]
    metrics: dict[str, Any]
    scored: Dataset
    train: Dataset | None  # the training texts, if known
    description: str  # which texts were scored, in a few words
    is_seen: bool  # whether the model was trained on them
    data: Summary
    conflicts: int  # different texts that occur with more than one label
    labels: list[str]  # C
    uses_network: bool  # else the n-grams decide alone
    truth: Targets  # (n,) class indices, or (n, C) 0/1 if a text may have several labels
    scores: AnyScores
    examples: Examples
    explanations: dict[int, Explanation]  # of the examples, by row
    top_words: TopWords
    faithfulness: Faithfulness
    speed: Speed
    size: int  # bytes

    @property
    def one_label(self) -> Scores:
        """Scores of the report's model, which must assign one label per text."""
        assert isinstance(self.scores, Scores)
        return self.scores

    @property
    def is_multi_label(self) -> bool:
        """Whether the report is about a multi-label model."""
        return isinstance(self.scores, MultiLabelScores)

    @property
    def has_ngrams(self) -> bool:
        """Whether the report is about a model that combines n-grams with a neural network."""
        return "n-grams" in self.config.get("parameters", {})


def collect_findings(
    folder: Path, data: EvaluationData, *, seed: int = 0, progress: Progress = SILENT
) -> Findings:
    """Collect all predictions, explanations and measurements for the report.

    Args:
        folder: a saved model.
        data: labelled texts, preferably not used in training, and the training texts, if known.
        seed: seed of every sample of texts.
        progress: receives the stages of the work.
    """
    config = load_config(folder)
    config["recipe"] = saved_recipe(folder, config).model_dump()
    predictor = Predictor.load(folder)
    labels = [str(label) for label in predictor.classes_.tolist()]
    scored, truth = encode_test_labels(predictor, data.texts)
    texts: list[str] = scored.texts.to_pylist()
    progress.stage("predicting", len(texts))
    probabilities, speed = _predict(predictor, texts, seed, progress)
    divisor = _sample_divisor(predictor, texts[0])
    examples = (
        choose_examples(truth.astype(np.int64), probabilities, limit=MAX_EXAMPLES // divisor)
        if predictor.thresholds is None
        else choose_multi_label_examples(
            truth > 0.5, probabilities, predictor.thresholds.decide(probabilities)
        )
    )
    progress.stage("explaining the examples", len(examples.rows))
    explained = _explain(predictor, [texts[row] for row in examples.rows], progress)
    return Findings(
        folder=folder,
        config=config,
        metrics=load_metrics(folder),
        scored=scored,
        train=data.train,
        description=data.about,
        is_seen=data.is_seen,
        data=_summary(data),
        conflicts=_count_conflicts(texts, truth),
        labels=labels,
        uses_network=predictor.uses_network,
        truth=truth,
        scores=score_predictions(predictor, truth, probabilities),
        examples=examples,
        explanations=dict(zip(examples.rows, explained, strict=True)),
        top_words=_top_words(
            predictor,
            [texts[row] for row in sample_rows(len(texts), MAX_TOP_WORD_TEXTS // divisor, seed)],
            progress,
        ),
        faithfulness=measure_faithfulness(
            predictor,
            texts,
            load_network=lambda: load_network(load_model(folder)),
            max_texts=max(MAX_TEXTS // divisor, MAX_TEXTS_SLOW),
            seed=seed,
            progress=progress,
        ),
        speed=speed,
        size=folder_size(folder),
    )


def _predict(
    predictor: Predictor, texts: list[str], seed: int, progress: Progress
) -> tuple[Floats, Speed]:
    """Predict all texts of the report and measure throughput and single-text latency."""
    predictor.predict_proba(texts[:1])  # the first call loads the engine
    start = time.perf_counter()
    probabilities = predictor.predict_proba(track_progress(texts, progress)).astype(np.float64)
    throughput = len(texts) / (time.perf_counter() - start)
    latencies = single_text_latencies(predictor.predict_proba, texts, seed=seed)
    median, slow = np.percentile(latencies, [50, 95])
    return probabilities, Speed(throughput, float(median), float(slow))


def _sample_divisor(predictor: Predictor, text: str) -> int:
    """Return the factor by which to reduce the report's sample if explanations are slow."""
    if predictor.explain(text).method == "contribution":
        return 1
    return TRANSFORMER_DIVISOR if is_slow(predictor) else OCCLUSION_DIVISOR


def _explain(predictor: Predictor, texts: Sequence[str], progress: Progress) -> list[Explanation]:
    explanations = []
    for text in texts:
        explanations.append(predictor.explain(text))
        progress.advance()
    return explanations


def _top_words(predictor: Predictor, texts: Sequence[str], progress: Progress) -> TopWords:
    progress.stage("counting top words", len(texts))
    return top_words(
        _explain(predictor, texts, progress),
        top=max(3, min(TOP_WORDS, ALL_TOP_WORDS // len(predictor.classes_))),
        min_count=5 if len(texts) >= 100 else 2,
    )


def _summary(data: EvaluationData) -> Summary:
    """Summarize the training texts (if known) and the scored texts for the report."""
    if data.train is None or data.is_seen:
        return summarize_dataset(data.texts)
    return summarize_dataset(data.train, data.texts)


def _count_conflicts(texts: Sequence[str], truth: Targets) -> int:
    first_label: dict[str, object] = {}
    conflicting = set()
    for text, label in zip(texts, truth.tolist(), strict=True):
        if first_label.setdefault(text, label) != label:
            conflicting.add(text)
    return len(conflicting)


def choose_examples(truth: Numbers, probabilities: Floats, *, limit: int) -> Examples:
    """Choose example texts for the report from true classes and predicted probabilities.

    ``truth`` has shape (n,) and ``probabilities`` (n, C); ``limit`` is the approximate number
    of examples behind the confusion matrix.
    """
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    doubtful = doubtful_labels(truth, probabilities)[:LISTED]
    order = np.argsort(-confidence, kind="stable")
    wrong = order[(predicted != truth)[order]].tolist()
    cells = _cells(truth, predicted, order, classes=probabilities.shape[1])
    per_cell = max(1, min(PER_CELL, limit // max(len(cells), 1)))
    return Examples(
        cells={cell: rows[:per_cell] for cell, rows in cells.items()},
        doubtful=doubtful,
        mistakes=[row for row in wrong if row not in doubtful][:LISTED],
    )


def choose_multi_label_examples(
    truth: NDArray[np.bool_], probabilities: Floats, decided: NDArray[np.bool_]
) -> Examples:
    """Choose example texts with wrong multi-label predictions, most confident mistakes first."""
    errors = np.where(truth != decided, np.abs(truth - probabilities), 0.0).max(axis=1)
    order = np.argsort(-errors, kind="stable")
    return Examples({}, [], [int(row) for row in order[: 2 * LISTED] if errors[row] > 0])


def multi_label_example_values(
    explanation: Explanation, labels: Sequence[str], truth: NDArray[np.bool_]
) -> dict[str, object]:
    """Return the report's template values for a multi-label example text.

    The highlighted words belong to the label on which prediction and truth differ most.
    """
    thresholds = explanation.thresholds
    assert thresholds is not None
    decided = reaches_threshold(explanation.probabilities, thresholds)
    errors = np.where(truth != decided, np.abs(truth - explanation.probabilities), 0.0)
    column = int(errors.argmax()) if errors.any() else explanation.best
    return {
        "predicted": label_names(labels[i] for i in np.flatnonzero(decided).tolist()),
        "correct": not errors.any(),
        "truth": label_names(labels[i] for i in np.flatnonzero(truth).tolist()),
        "label": labels[column],
        "probability": float(explanation.probabilities[column]),
        "words": marked_words(explanation, column),
    }


def doubtful_labels(truth: Numbers, probabilities: Floats) -> list[int]:
    """Find texts with probably wrong labels for the report, using confident learning.

    Northcutt et al. 2021: with t_j the mean probability of class j over the texts labelled j, a
    label is doubtful if another class has p_j ≥ t_j and p_j > p_label. Rows are sorted by the
    margin p_j − p_label, largest first.
    """
    n, classes = probabilities.shape
    own = probabilities[np.arange(n), truth]
    sums = np.bincount(truth, own, classes)
    counts = np.bincount(truth, minlength=classes)
    thresholds = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)  # (C,)
    likely = np.where(probabilities >= thresholds, probabilities, 0.0)
    likely[np.arange(n), truth] = 0.0
    margin = likely.max(axis=1) - own
    order: NDArray[np.int64] = np.argsort(-margin, kind="stable")
    return [int(row) for row in order if margin[row] > 0]


def _cells(
    truth: Numbers, predicted: Numbers, order: NDArray[np.int64], *, classes: int
) -> dict[Cell, list[int]]:
    """Group the rows of example texts by true and predicted class.

    With many classes, only the most frequent confusions are kept.
    """
    cells: dict[Cell, list[int]] = {}
    for row in order.tolist():
        cells.setdefault((int(truth[row]), int(predicted[row])), []).append(row)
    if classes <= MAX_MATRIX_CLASSES:
        return cells
    confused = sorted((cell for cell in cells if cell[0] != cell[1]), key=lambda c: -len(cells[c]))
    return {cell: cells[cell] for cell in confused[:MAX_PAIRS]}


def example_values(
    explanation: Explanation, labels: Sequence[str], truth: int
) -> dict[str, object]:
    """Return the report's template values for an example text, such as label and prediction."""
    best = explanation.best
    return {
        "label": None,  # the words are those of the predicted class
        "predicted": labels[best],
        "probability": explanation.probability,
        "correct": best == truth,
        "truth": labels[truth],
        "truth_probability": float(explanation.probabilities[truth]),
        "words": marked_words(explanation, best),
    }


def marked_words(explanation: Explanation, column: int) -> list[tuple[str, str]]:
    """Split an example text into pieces with the CSS classes that highlight them."""
    strength = contribution_strength(explanation, column)
    segments = excerpt_segments(explanation, strength, words=EXCERPT_WORDS)
    return [
        (characters, "" if t is None or not characters else _mark(float(strength[t])))
        for t, characters in segments
    ]


def _mark(strength: float) -> str:
    if abs(strength) < FAINTEST_MARK:
        return ""
    step = min(int((abs(strength) - FAINTEST_MARK) / (1 - FAINTEST_MARK) * 4), 3) + 1
    return f"{'p' if strength > 0 else 'n'}{step}"
