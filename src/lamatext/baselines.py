"""Baselines to compare a model with: TF-IDF with a linear model, and fastText.

``train_baseline(name, train)`` is the one way to train a baseline; ``.evaluate(test)`` returns its
row of the leaderboard.
"""

import pickle  # nosec B403 # only writes, to measure a size
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import TextGroups
from lamatext.data.labels import LabelEncoder, Targets
from lamatext.data.splits import hold_out_validation
from lamatext.data.tokenizer import WordTokenizer, is_unspaced
from lamatext.errors import ConfigError, require
from lamatext.label_thresholds import LabelThresholds, ThresholdGoal, choose_thresholds
from lamatext.metrics import AnyScores, LabelScores, MultiLabelScores, score_targets
from lamatext.probabilities import sigmoid, softmax
from lamatext.settings import TrainingSettings

VALIDATION_FRACTION = 0.1
DEFAULTS = TrainingSettings()

Texts = Sequence[str]
Floats = NDArray[np.float64]

SCRIPT_TEXTS = 1000  # texts from which a baseline recognizes a script without spaces
MANY_TEXTS = 2_000  # training texts from which on TF-IDF drops n-grams that only one of them has


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """Leaderboard row with the accuracy, size and speed of a model or baseline."""

    model: str
    accuracy: float  # with several labels per text: the share of texts with all labels right
    macro_f1: float
    calibration_error: float
    bytes: int
    texts_per_second: float
    seconds: float  # of training
    micro_f1: float | None = None  # of a multi-label model
    micro_f1_interval: tuple[float, float] | None = None  # 95 % confidence interval
    mean_average_precision: float | None = None  # of a multi-label model
    hamming_loss: float | None = None  # of a multi-label model
    labels: Sequence[LabelScores] | None = None  # of a multi-label model

    @classmethod
    def from_scores(
        cls, title: str, scores: AnyScores, *, size: int, speed: float, seconds: float
    ) -> "LeaderboardRow":
        """Create the leaderboard row of a model or baseline from its test scores.

        Args:
            title: name of the row.
            scores: metrics on the test set.
            size: bytes on disk.
            speed: texts per second in prediction.
            seconds: training time.
        """
        return cls(
            model=title,
            **_score_fields(scores),
            bytes=size,
            texts_per_second=speed,
            seconds=seconds,
        )

    def with_scores(self, scores: AnyScores) -> "LeaderboardRow":
        """Return a copy of the leaderboard row with different scores."""
        return replace(self, **_score_fields(scores))

    def as_dict(self) -> dict[str, Any]:
        """Return the leaderboard row of a model or baseline as a JSON-compatible dictionary."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _score_fields(scores: AnyScores) -> dict[str, Any]:
    """Return the fields of a baseline's or model's ``LeaderboardRow`` that hold its test scores."""
    names = ["accuracy", "macro_f1", "calibration_error"]
    if not isinstance(scores, MultiLabelScores):
        return {name: getattr(scores, name) for name in names}
    names += ["micro_f1", "micro_f1_interval", "mean_average_precision", "hamming_loss"]
    return {**{name: getattr(scores, name) for name in names}, "labels": scores.classes}


class Baseline(Protocol):
    """Interface of all baseline classifiers: training, prediction and model size."""

    def fit(self, texts: Texts, labels: Targets) -> None:
        """Train the baseline on texts and class indices (or a 0/1 label matrix)."""
        ...

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict the class or label probabilities (n, C) of texts with the baseline."""
        ...

    def size(self) -> int:
        """Return the file size of the trained baseline in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class TrainedBaseline:
    """Trained baseline (such as TF-IDF or fastText) with its labels and training time."""

    title: str
    model: Baseline
    labels: LabelEncoder
    seconds: float
    decision: "LabelDecision | None" = None  # of a baseline with several labels per text

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict class probabilities with the baseline, calibrated if it is multi-label."""
        probabilities = self.model.predict_proba(texts)
        return probabilities if self.decision is None else self.decision.calibrate(probabilities)

    def evaluate(self, test: Dataset) -> LeaderboardRow:
        """Evaluate the baseline on a test set and return its leaderboard row."""
        truth = self.labels.encode_targets(test.require_labels(), place=test.place)
        texts, started = test.texts.to_pylist(), time.perf_counter()
        probabilities = self.predict_proba(texts)
        speed = len(texts) / (time.perf_counter() - started)
        decision = self.decision
        decided = None if decision is None else decision.thresholds.decide(probabilities)
        scores = score_targets(self.labels.classes, truth, probabilities, decided)
        return LeaderboardRow.from_scores(
            self.title, scores, size=self.model.size(), speed=speed, seconds=self.seconds
        )


def train_baseline(
    name: str,
    train: Dataset,
    validation: Dataset | None = None,
    training: TrainingSettings = DEFAULTS,
) -> TrainedBaseline:
    """Train the baseline with the given name in ``BASELINES`` on labelled data.

    With one label per text, TF-IDF models get the class weights of the training settings, like our
    own model. With several labels per text, the probabilities of a baseline are calibrated and its
    thresholds chosen on the validation set (a tenth of the training set if there is none), by the
    same rule and for the same goal as those of our own model. The baseline is then trained again on
    both sets.
    """
    check_baselines([name])
    title, make = BASELINES[name]
    both = train if validation is None else train.concatenate(validation)
    labels, started = LabelEncoder.fit(both.require_labels()), time.perf_counter()
    decision = None
    if train.is_multi_label:
        if validation is None:
            groups = TextGroups(train.texts, train.group_values)
            split = hold_out_validation(train.require_labels(), VALIDATION_FRACTION, 0, groups)
            train, validation = both.take(split.train), both.take(split.validation)
        goal = ThresholdGoal(training.metric, training.min_precision)
        decision = LabelDecision.fit(make(), labels, train, validation, goal)
    baseline = make()
    if isinstance(baseline, TfidfLinear) and not train.is_multi_label:
        baseline.class_weight = _weights_by_index(training.class_weight, labels)
    baseline.fit(both.texts.to_pylist(), labels.encode_targets(both.require_labels()))
    return TrainedBaseline(title, baseline, labels, time.perf_counter() - started, decision)


def _weights_by_index(
    weights: str | Mapping[str, float] | None, labels: LabelEncoder
) -> str | dict[int, float] | None:
    """Map class weights from labels to class indices, as a TF-IDF baseline's model expects."""
    if weights is None or isinstance(weights, str):
        return weights
    return {number: weights.get(name, 1.0) for number, name in enumerate(labels.names)}


@dataclass(frozen=True, slots=True)
class LabelDecision:
    """Calibration and probability thresholds of a multi-label baseline.

    The logit of each label is multiplied by a factor that all labels share, and shifted by an
    offset of its own.
    """

    factors: NDArray[np.float32]  # (L,)
    shifts: NDArray[np.float32]  # (L,)
    thresholds: LabelThresholds

    @classmethod
    def fit(
        cls,
        baseline: Baseline,
        labels: LabelEncoder,
        train: Dataset,
        validation: Dataset,
        goal: ThresholdGoal,
    ) -> "LabelDecision":
        """Train a multi-label baseline, then calibrate it and choose its thresholds."""
        from lamatext.training.label_calibration import fit_label_factors

        baseline.fit(train.texts.to_pylist(), labels.encode_lists(train.require_labels()))
        logits = _logits(baseline.predict_proba(validation.texts.to_pylist())).astype(np.float32)
        targets = labels.encode_lists(validation.require_labels())
        factors = fit_label_factors(np.zeros_like(logits), logits, targets)
        probabilities = sigmoid(factors.combine(np.zeros_like(logits), logits))
        texts = labels.encode_lists(train.require_labels()).sum(axis=0) + targets.sum(axis=0)
        values = choose_thresholds(probabilities, targets > 0, goal, labelled_texts=texts)
        return cls(factors.network, factors.shifts, LabelThresholds(values))

    def calibrate(self, probabilities: Floats) -> Floats:
        """Return the calibrated probabilities (n, L) of a multi-label baseline."""
        return sigmoid(self.factors * _logits(probabilities) + self.shifts)


def _logits(probabilities: Floats) -> Floats:
    clipped = np.clip(probabilities.astype(np.float64), 1e-9, 1 - 1e-9)
    logits: Floats = np.log(clipped) - np.log1p(-clipped)
    return logits


def check_baselines(names: Sequence[str]) -> None:
    """Raise an error if a baseline is unknown or needs a package that is not installed."""
    for name in names:
        if name not in (*BASELINES, "avg"):
            raise ConfigError(f"unknown baseline {name!r}. Known: {', '.join(BASELINES)}, avg.")
        if name.startswith("fasttext"):
            require("fasttext", extra="baselines", purpose="the baseline fastText")


def least_document_frequency(training_texts: int) -> int:
    """Return the minimum document frequency of the n-gram features of a TF-IDF baseline.

    With few texts, n-grams of a single text usually make the baseline more accurate.
    """
    return 2 if training_texts >= MANY_TEXTS else 1


class TfidfLinear:
    """Baseline that classifies TF-IDF vectors with a linear model from scikit-learn.

    ``linear`` is ``lr`` (logistic regression) or ``svc`` (support vector classifier).
    """

    def __init__(self, linear: str, *, words: tuple[int, int], characters: bool = False) -> None:
        self._text = require("sklearn.feature_extraction.text", extra="train", purpose="TF-IDF")
        self._linear, self._words, self._characters = linear, words, characters
        self.class_weight: str | dict[int, float] | None = None
        self._pipeline: Any = None

    def fit(self, texts: Texts, labels: Targets) -> None:
        """Train the TF-IDF baseline on texts and class indices (or a 0/1 label matrix).

        Texts in scripts without spaces are read as runs of one to four characters.
        """
        pipeline = require("sklearn.pipeline", extra="train", purpose="TF-IDF")
        svm_c = 0.5 if self._characters else 1.0
        model = _make_linear_model(self._linear, svm_c, is_binary=labels.ndim == 2)
        model.set_params(class_weight=self.class_weight)
        if labels.ndim == 2:
            multiclass = require("sklearn.multiclass", extra="train", purpose="one-vs-rest")
            model, labels = (
                multiclass.OneVsRestClassifier(model, n_jobs=-1),
                labels.astype(np.int64),
            )
        self._pipeline = pipeline.make_pipeline(
            pipeline.FeatureUnion(self._vectorizers(texts)),
            model,
        )
        joblib = require("joblib", extra="train", purpose="TF-IDF")
        with joblib.parallel_config(mmap_mode="c"):  # liblinear writes to the arrays that it gets
            self._pipeline.fit(texts, labels)

    def _vectorizers(self, texts: Texts) -> list[tuple[str, Any]]:
        vectorizer = self._text.TfidfVectorizer
        common = {"sublinear_tf": True, "min_df": least_document_frequency(len(texts))}
        if is_unspaced(" ".join(texts[:SCRIPT_TEXTS])):
            return [("characters", vectorizer(analyzer="char", ngram_range=(1, 4), **common))]
        vectorizers = [("words", vectorizer(ngram_range=self._words, **common))]
        if self._characters:
            in_words = vectorizer(analyzer="char_wb", ngram_range=(2, 5), **common)
            vectorizers.append(("characters", in_words))
        return vectorizers

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict the class probabilities of texts with the TF-IDF baseline.

        The shape is (n, C). The probabilities of an SVM are the softmax of its margins, or their
        sigmoids if a text may have several labels.
        """
        if hasattr(self._pipeline[-1], "estimators_"):
            return sigmoid(np.asarray(self._pipeline.decision_function(texts), np.float64))
        if hasattr(self._pipeline, "predict_proba"):
            return np.asarray(self._pipeline.predict_proba(texts))
        return softmax(self.margins(texts))

    def margins(self, texts: Texts) -> Floats:
        """Return the decision values (n, C) of the TF-IDF baseline's linear model."""
        margins = np.asarray(self._pipeline.decision_function(texts))
        return np.stack([-margins, margins], axis=1) if margins.ndim == 1 else margins

    def size(self) -> int:
        """Return the size in bytes of the TF-IDF baseline as a pickle file."""
        return len(pickle.dumps(self._pipeline))


def _make_linear_model(name: str, svm_c: float, *, is_binary: bool) -> Any:
    if name == "svc":
        return require("sklearn.svm", extra="train", purpose="LinearSVC").LinearSVC(C=svm_c)
    linear_model = require("sklearn.linear_model", extra="train", purpose="LogisticRegression")
    solver = "liblinear" if is_binary else "lbfgs"  # much faster for many one-vs-rest fits
    return linear_model.LogisticRegression(C=10, max_iter=1000, solver=solver)


class FastText:
    """Baseline that trains a fastText classifier on word n-grams.

    The training texts are shuffled, as SGD needs. With several labels per text the loss is one
    sigmoid per label (one-vs-all).
    """

    def __init__(self, *, max_words: int) -> None:
        self._library = require("fasttext", extra="baselines", purpose="the baseline fastText")
        self._max_words = max_words
        self._model: Any = None
        self._classes = 0

    def fit(self, texts: Texts, labels: Targets) -> None:
        """Train the fastText baseline on texts and class indices (or a 0/1 label matrix)."""
        is_several = labels.ndim == 2
        self._classes = labels.shape[1] if is_several else int(labels.max()) + 1
        order = np.random.default_rng(0).permutation(len(texts))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            with path.open("w", encoding="utf-8") as file:
                for row in order:
                    names = np.flatnonzero(labels[row]) if is_several else [labels[row]]
                    prefix = " ".join(f"__label__{name}" for name in names)
                    file.write(f"{prefix} {_fasttext_line(texts[row])}\n")
            self._model = self._library.train_supervised(
                str(path),
                dim=100,
                epoch=10,
                lr=0.5,
                wordNgrams=self._max_words,
                loss="ova" if is_several else "softmax",
                thread=2,
                verbose=0,
            )

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict the class probabilities (n, C) of texts with the fastText baseline."""
        probabilities = np.zeros((len(texts), self._classes))
        for row, text in enumerate(texts):
            # The wrapper's predict fails with numpy 2; this is the function that it calls.
            predictions = self._model.f.predict(
                f"{_fasttext_line(text)}\n", self._classes, 0.0, "strict"
            )
            for probability, label in predictions:
                probabilities[row, int(label.removeprefix("__label__"))] = probability
        return probabilities

    def size(self) -> int:
        """Return the size in bytes of the fastText baseline's model file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.bin"
            self._model.save_model(str(path))
            return path.stat().st_size


def _fasttext_line(text: str) -> str:
    """Convert a text to a line of lowercase, space-separated tokens for the fastText baseline."""
    return " ".join(WordTokenizer().words(text))


class BaselineKind(NamedTuple):
    """Entry of ``BASELINES``: a baseline's title and a function that creates it untrained."""

    title: str
    make: Callable[[], Baseline]


BASELINES: dict[str, BaselineKind] = {
    "tfidf": BaselineKind("TF-IDF + LR", lambda: TfidfLinear("lr", words=(1, 2))),
    "tfidf-svc": BaselineKind("TF-IDF + SVC", lambda: TfidfLinear("svc", words=(1, 2))),
    "tfidf-chars": BaselineKind(
        "TF-IDF words and characters + SVC",
        lambda: TfidfLinear("svc", words=(1, 2), characters=True),
    ),
    "tfidf-chars-lr": BaselineKind(
        "TF-IDF words and characters + LR",
        lambda: TfidfLinear("lr", words=(1, 2), characters=True),
    ),
    "fasttext": BaselineKind("fastText", lambda: FastText(max_words=1)),
    "fasttext-bigrams": BaselineKind("fastText bigrams", lambda: FastText(max_words=2)),
}
