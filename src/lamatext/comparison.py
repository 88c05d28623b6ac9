"""Comparison of models on the same test texts: paired bootstrap intervals and kinds of texts.

All models predict the same texts. The texts are resampled with replacement, and every model is
scored on the same resamples, so that texts that are hard for all models do not widen the interval
of a difference.

Shapes: n texts, C classes, R resamples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.tokenizer import WordTokenizer
from lamatext.errors import percent, plural
from lamatext.metrics import FOLD_VARIANCE, Flags, Floats
from lamatext.progress import SILENT, Progress, track_progress

RESAMPLES = 1000
CHUNK = 50  # resamples that are in memory at once
MAX_CLASSES = 20  # shown: the most frequent classes
FEW_UNKNOWN = 0.1  # share of a text's words

ONE_LABEL = ("accuracy", "macro-F1")
SEVERAL_LABELS = ("micro-F1", "macro-F1")


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """Model in a comparison, with its predictions, size, latency and training time."""

    name: str
    decided: Flags  # (n, C) the predicted classes
    bytes: int
    latency_ms: float  # median of one text
    seconds: float | None  # of training; None if unknown
    note: str = ""  # a caution, such as that its training texts are unknown


class TextGroup(NamedTuple):
    """Group of test texts on which models are compared, such as the shortest third."""

    kind: str
    name: str
    is_member: Flags  # (n,)


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between the scores of two compared models, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_tie(self) -> bool:
        """Whether the two compared models are tied: the interval of their difference includes 0."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """Scores of one model in a comparison, with its size, latency and training time."""

    model: str
    scores: dict[str, float]  # by metric
    differences: dict[str, Difference]  # by metric; empty for the first model
    bytes: int
    latency_ms: float
    seconds: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Scores of all compared models on one group of texts, with the names of the best models."""

    kind: str  # length, unknown words or class
    name: str
    texts: int
    scores: list[float]  # one per model: accuracy or micro-F1, for a class its F1
    winners: list[str]  # several if the difference between them can be due to chance


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing models on the same test texts, as shown by ``lamatext compare``."""

    source: str
    texts: int
    training_texts: int
    folds: int  # of the cross-validation; 0 with a test set
    metrics: tuple[str, ...]  # the first decides
    rows: list[ComparedRow]  # the own model first
    groups: list[GroupRow]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-compatible dictionary."""
        names = [row.model for row in self.rows]
        groups = [
            {**asdict(group), "scores": dict(zip(names, group.scores, strict=True))}
            for group in self.groups
        ]
        return {**asdict(self), "metrics": list(self.metrics), "groups": groups}

    def verdicts(self) -> list[str]:
        """Return one sentence per compared model that says whether it beats the first model."""
        return [self._verdict(row) for row in self.rows[1:]]

    def _verdict(self, row: ComparedRow) -> str:
        own, metric = self.rows[0].model, self.metrics[0]
        gap = row.differences[metric]
        low, high = (100 * end for end in (gap.low, gap.high))
        interval = f"95 % interval {low:+.1f} to {high:+.1f}".replace("-", "−")
        if gap.is_tie:
            found = "the same " + metric
            if gap.value:
                size = f"{100 * abs(gap.value):.1f} points in {metric}"
                found = f"a difference of {size}, which can be due to chance,"
            return (
                f"{own} and {row.model} tie: {found} on {plural(self.texts, 'text')} ({interval})."
            )
        ahead, behind = (row.model, own) if gap.value > 0 else (own, row.model)
        return (
            f"{ahead} is ahead of {behind} by {100 * abs(gap.value):.1f} points in {metric} "
            f"({row.model} minus {own}: {interval})."
        )


def compare_predictions(  # noqa: PLR0913 - the predictions, and what describes them
    truth: Flags,
    models: Sequence[ComparedModel],
    groups: Sequence[TextGroup],
    classes: Sequence[object],
    *,
    is_multi_label: bool,
    source: str,
    training_texts: int,
    folds: int = 0,
) -> Comparison:
    """Compare the predictions of several models on the same test texts.

    Args:
        truth: the true classes, (n, C).
        models: the predictions; differences are relative to the first model.
        groups: kinds of texts to compare the models on.
        classes: the class labels.
        is_multi_label: whether a text may have several labels.
        source: name of the data.
        training_texts: number of texts that the models were trained on.
        folds: number of folds if the predictions are from cross-validation.
    """
    metrics = SEVERAL_LABELS if is_multi_label else ONE_LABEL
    counts = [_count(truth, model.decided, groups) for model in models]
    scores = _BootstrapScores.compute(counts, len(classes), is_multi_label, folds)
    group_rows = [
        GroupRow(
            kind=kind,
            name=name,
            texts=texts,
            scores=scores.observed[:, column].tolist(),
            winners=[models[i].name for i in scores.winners(column, texts)],
        )
        for kind, name, texts, column in _group_columns(truth, groups, classes)
    ]
    return Comparison(
        source=source,
        texts=len(truth),
        training_texts=training_texts,
        folds=folds,
        metrics=metrics,
        rows=[_row(number, model, metrics, scores) for number, model in enumerate(models)],
        groups=group_rows,
    )


def _row(
    number: int, model: ComparedModel, metrics: Sequence[str], scores: "_BootstrapScores"
) -> ComparedRow:
    texts = scores.texts
    return ComparedRow(
        model=model.name,
        scores={name: float(scores.observed[number, k]) for k, name in enumerate(metrics)},
        differences={
            name: scores.difference((number, 0), k, texts) for k, name in enumerate(metrics)
        }
        if number
        else {},
        bytes=model.bytes,
        latency_ms=model.latency_ms,
        seconds=model.seconds,
        note=model.note,
    )


def true_classes(labels: LabelEncoder, test: Dataset) -> Flags:
    """Return the true classes of the texts in a model comparison as a boolean matrix (n, C)."""
    targets = labels.encode_targets(test.require_labels(), place=test.place)
    if targets.ndim == 2:
        several: Flags = targets > 0
        return several
    one: Flags = np.eye(len(labels.classes), dtype=np.bool_)[targets.astype(np.int64)]
    return one


def score_decisions(truth: Flags, decided: Flags, *, is_multi_label: bool) -> dict[str, float]:
    """Compute a model's scores in a comparison: accuracy or micro-F1, and macro-F1."""
    counts, everything = _count(truth, decided, []), np.ones((1, len(truth)), np.float32)
    scores = _scores(everything, counts, truth.shape[1], is_multi_label)[0]
    metrics = SEVERAL_LABELS if is_multi_label else ONE_LABEL
    return {name: float(value) for name, value in zip(metrics, scores[:2], strict=True)}


class _Counts(NamedTuple):
    """Counts of correct, predicted and true labels, from which comparison scores are computed."""

    hits: NDArray[np.float32]  # (n, 1 + groups + C)
    predicted: NDArray[np.float32]
    positives: NDArray[np.float32]


def _count(truth: Flags, decided: Flags, groups: Sequence[TextGroup]) -> _Counts:
    def columns(flags: Flags) -> NDArray[np.float32]:
        total = flags.sum(axis=1).astype(np.float32)  # (n,)
        members = [total * group.is_member for group in groups]
        return np.column_stack([total, *members, flags.astype(np.float32)])

    return _Counts(columns(truth & decided), columns(decided), columns(truth))


def _scores(
    draws: NDArray[np.float32], counts: _Counts, classes: int, is_multi_label: bool
) -> Floats:
    """Compute the comparison scores of one model on bootstrap resamples of the test texts.

    With one label per text, micro-F1 is the accuracy. ``draws`` (R, n) says how often each text was
    drawn; the result is (R, 2 + groups + C).
    """
    hits, predicted, positives = (draws @ part for part in counts)
    f1 = 2 * hits / np.maximum(predicted + positives, 1)
    per_class, is_present = f1[:, -classes:], positives[:, -classes:] > 0
    if is_multi_label:  # means over labels include every label
        is_present = np.ones_like(is_present)
    macro = (per_class * is_present).sum(axis=1) / np.maximum(is_present.sum(axis=1), 1)
    return np.column_stack([f1[:, 0], macro, f1[:, 1:]]).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _BootstrapScores:
    """Scores of all compared models on the test texts and on bootstrap resamples.

    Shapes: m models, K = 2 + groups + C columns of ``_scores``.
    """

    texts: int
    observed: Floats  # (m, K)
    resampled: Floats  # (m, R, K)

    @classmethod
    def compute(
        cls, counts: Sequence["_Counts"], classes: int, is_multi_label: bool, folds: int
    ) -> "_BootstrapScores":
        """Compute the scores of the compared models on all texts and on bootstrap resamples."""
        texts = len(counts[0].hits)

        def score(draws: NDArray[np.float32]) -> Floats:
            return np.stack([_scores(draws, one, classes, is_multi_label) for one in counts])

        observed = score(np.ones((1, texts), np.float32))[:, 0]
        resampled = [score(draws) for draws in _resamples(texts, folds)]
        return cls(texts, observed, np.concatenate(resampled, axis=1))

    def difference(self, pair: tuple[int, int], column: int, texts: int) -> Difference:
        """Return the score difference of two compared models with its bootstrap interval."""
        one, other = pair
        value = float(self.observed[one, column] - self.observed[other, column])
        gaps = self.resampled[one, :, column] - self.resampled[other, :, column]
        low, high = np.quantile(gaps, (0.025, 0.975))
        if low == high:  # no variance to resample: the rule of three
            low, high = value - 3 / texts, value + 3 / texts
        return Difference(value, float(min(low, value)), float(max(high, value)))

    def winners(self, column: int, texts: int) -> list[int]:
        """Return the indices of the best compared models on a group of texts (several if tied)."""
        best = int(self.observed[:, column].argmax())
        others = [i for i in range(len(self.observed)) if i != best]
        ties = [i for i in others if self.difference((best, i), column, texts).is_tie]
        return sorted([best, *ties])


def _resamples(texts: int, folds: int) -> Iterator[NDArray[np.float32]]:
    """Yield bootstrap resamples of the compared test texts: how often each text is drawn.

    Each chunk has the shape (resamples, texts). Cross-validated predictions are less independent
    than those of a test set: fewer texts are drawn, which widens the intervals.
    """
    generator = np.random.default_rng(0)
    drawn = max(1, round(texts / FOLD_VARIANCE)) if folds else texts
    for _ in range(RESAMPLES // CHUNK):
        rows = generator.integers(texts, size=(CHUNK, drawn))
        counts = [np.bincount(drawn_rows, minlength=texts) for drawn_rows in rows]
        yield np.stack(counts).astype(np.float32)


def _group_columns(
    truth: Flags, groups: Sequence[TextGroup], classes: Sequence[object]
) -> Iterator[tuple[str, str, int, int]]:
    """Yield each group of compared texts: its kind, name, size and the index of its scores."""
    for place, group in enumerate(groups):
        yield group.kind, group.name, int(group.is_member.sum()), 2 + place
    texts = truth.sum(axis=0)
    frequent = np.sort(np.argsort(-texts, kind="stable")[:MAX_CLASSES])
    for place in frequent[texts[frequent] > 0].tolist():
        yield "class", str(classes[place]), int(texts[place]), 2 + len(groups) + place


def text_groups(
    parts: Sequence[tuple[Sequence[str], Sequence[str]]], progress: Progress = SILENT
) -> list[TextGroup]:
    """Group the test texts of a model comparison by length and by share of unknown words."""
    tokenizer = WordTokenizer()
    lengths, unknown = [], []
    for train, test in parts:
        known = {word for text in track_progress(train, progress) for word in tokenizer.words(text)}
        for text in track_progress(test, progress):
            words = tokenizer.words(text)
            lengths.append(len(words))
            unknown.append(sum(word not in known for word in words) / max(1, len(words)))
    groups = [*_length_groups(np.array(lengths)), *_unknown_groups(np.array(unknown))]
    return [group for group in groups if group.is_member.any()]


def _length_groups(lengths: NDArray[np.int64]) -> Iterator[TextGroup]:
    """Yield groups of compared texts: the shortest, the middle and the longest third."""
    short, middle = (int(cut) for cut in np.quantile(lengths, (1 / 3, 2 / 3), method="lower"))
    yield TextGroup("length", f"up to {short:,} words", lengths <= short)
    between = (lengths > short) & (lengths <= middle)
    yield TextGroup("length", f"{short + 1:,} to {middle:,} words", between)
    yield TextGroup("length", f"more than {middle:,} words", lengths > middle)


def _unknown_groups(shares: Floats) -> Iterator[TextGroup]:
    kind = "unknown words"
    yield TextGroup(kind, "none", shares == 0)
    few = (shares > 0) & (shares <= FEW_UNKNOWN)
    yield TextGroup(kind, f"up to {percent(FEW_UNKNOWN, 0)} of the words", few)
    yield TextGroup(kind, f"more than {percent(FEW_UNKNOWN, 0)} of the words", shares > FEW_UNKNOWN)
