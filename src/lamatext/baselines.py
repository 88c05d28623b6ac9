"""Baselines to compare a model with: TF-IDF with a linear model, and fastText.

``train_baseline(name, train)`` is the one way to train a baseline; ``.evaluate(test)`` returns its
row of the leaderboard.
"""

import pickle  # nosec B403 # only writes, to measure a size
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.labels import ClassIndices, LabelEncoder
from lamatext.data.tokenizer import WordTokenizer, is_unspaced
from lamatext.errors import ConfigError, require
from lamatext.metrics import Scores, score

Texts = Sequence[str]
Floats = NDArray[np.float64]

SCRIPT_TEXTS = 1000  # texts from which a baseline recognizes a script without spaces


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """Accuracy, size and speed of one model or baseline in the leaderboard."""

    model: str
    accuracy: float
    macro_f1: float
    calibration_error: float
    bytes: int
    texts_per_second: float
    seconds: float  # of training

    @classmethod
    def from_scores(
        cls, title: str, scores: Scores, *, size: int, speed: float, seconds: float
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
            accuracy=scores.accuracy,
            macro_f1=scores.macro_f1,
            calibration_error=scores.calibration_error,
            bytes=size,
            texts_per_second=speed,
            seconds=seconds,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the leaderboard row of a model or baseline as a JSON-compatible dictionary."""
        return asdict(self)


class Baseline(Protocol):
    """Interface of a baseline classifier: training, prediction and model size."""

    def fit(self, texts: Texts, labels: ClassIndices) -> None:
        """Train the baseline on texts and their class indices."""
        ...

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict the class probabilities of texts with the baseline.

        The shape is (n, C).
        """
        ...

    def size(self) -> int:
        """Return the size of the saved baseline in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class TrainedBaseline:
    """Trained baseline with its labels and training time."""

    title: str
    model: Baseline
    labels: LabelEncoder
    seconds: float

    def evaluate(self, test: Dataset) -> LeaderboardRow:
        """Score the baseline on a test set and return its leaderboard row."""
        truth = self.labels.encode(test.require_labels(), source=test.source)
        texts, started = test.texts.to_pylist(), time.perf_counter()
        probabilities = self.model.predict_proba(texts)
        speed = len(texts) / (time.perf_counter() - started)
        scores = score(self.labels.classes, truth, probabilities)
        return LeaderboardRow.from_scores(
            self.title, scores, size=self.model.size(), speed=speed, seconds=self.seconds
        )


def train_baseline(name: str, train: Dataset) -> TrainedBaseline:
    """Train a baseline, chosen by its name in ``BASELINES``, on a labelled dataset."""
    check_baselines([name])
    title, make = BASELINES[name]
    labels = LabelEncoder.fit(train.require_labels())
    class_indices, texts = labels.encode(train.require_labels()), train.texts.to_pylist()
    baseline, started = make(), time.perf_counter()
    baseline.fit(texts, class_indices)
    return TrainedBaseline(title, baseline, labels, time.perf_counter() - started)


def check_baselines(names: Sequence[str]) -> None:
    """Raise an error if a baseline is unknown or needs a package that is not installed."""
    for name in names:
        if name not in (*BASELINES, "avg"):
            raise ConfigError(f"unknown baseline {name!r}. Known: {', '.join(BASELINES)}, avg.")
        if name.startswith("fasttext"):
            require("fasttext", extra="baselines", purpose="the baseline fastText")


class TfidfLinear:
    """Baseline that classifies TF-IDF vectors with a linear model from scikit-learn.

    ``linear`` is ``lr`` (logistic regression) or ``svc`` (support vector classifier).
    """

    def __init__(self, linear: str, *, words: tuple[int, int], characters: bool = False) -> None:
        self._text = require("sklearn.feature_extraction.text", extra="train", purpose="TF-IDF")
        self._linear, self._words, self._characters = linear, words, characters
        self._pipeline: Any = None

    def fit(self, texts: Texts, labels: ClassIndices) -> None:
        """Train the TF-IDF baseline on texts and their class indices.

        Texts in scripts without spaces are read as runs of one to four characters.
        """
        pipeline = require("sklearn.pipeline", extra="train", purpose="TF-IDF")
        svm_c = 0.5 if self._characters else 1.0
        self._pipeline = pipeline.make_pipeline(
            pipeline.FeatureUnion(self._vectorizers(is_unspaced(" ".join(texts[:SCRIPT_TEXTS])))),
            _make_linear_model(self._linear, svm_c),
        )
        self._pipeline.fit(texts, labels)

    def _vectorizers(self, by_character: bool) -> list[tuple[str, Any]]:
        vectorizer, common = self._text.TfidfVectorizer, {"sublinear_tf": True, "min_df": 2}
        if by_character:
            return [("characters", vectorizer(analyzer="char", ngram_range=(1, 4), **common))]
        vectorizers = [("words", vectorizer(ngram_range=self._words, **common))]
        if self._characters:
            in_words = vectorizer(analyzer="char_wb", ngram_range=(2, 5), **common)
            vectorizers.append(("characters", in_words))
        return vectorizers

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict the class probabilities of texts with the TF-IDF baseline.

        The shape is (n, C). The probabilities of an SVM are the softmax of its margins.
        """
        if hasattr(self._pipeline, "predict_proba"):
            return np.asarray(self._pipeline.predict_proba(texts))
        margins = self.margins(texts)
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def margins(self, texts: Texts) -> Floats:
        """Return the signed distances of texts from the TF-IDF baseline's decision boundaries.

        The shape is (n, C).
        """
        margins = np.asarray(self._pipeline.decision_function(texts))
        return np.stack([-margins, margins], axis=1) if margins.ndim == 1 else margins

    def size(self) -> int:
        """Return the size in bytes of the pickled TF-IDF baseline.

        A pickle is the usual way to save it.
        """
        return len(pickle.dumps(self._pipeline))


def _make_linear_model(name: str, svm_c: float) -> Any:
    if name == "svc":
        return require("sklearn.svm", extra="train", purpose="LinearSVC").LinearSVC(C=svm_c)
    linear_model = require("sklearn.linear_model", extra="train", purpose="LogisticRegression")
    return linear_model.LogisticRegression(C=10, max_iter=1000)


class FastText:
    """Baseline that trains a fastText classifier on word n-grams.

    The training texts are shuffled, as SGD needs.
    """

    def __init__(self, *, max_words: int) -> None:
        self._library = require("fasttext", extra="baselines", purpose="the baseline fastText")
        self._max_words = max_words
        self._model: Any = None
        self._classes = 0

    def fit(self, texts: Texts, labels: ClassIndices) -> None:
        """Train the fastText baseline on texts and their class indices."""
        self._classes = int(labels.max()) + 1
        order = np.random.default_rng(0).permutation(len(texts))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            with path.open("w", encoding="utf-8") as file:
                for row in order:
                    file.write(f"__label__{labels[row]} {_fasttext_line(texts[row])}\n")
            self._model = self._library.train_supervised(
                str(path),
                dim=100,
                epoch=10,
                lr=0.5,
                wordNgrams=self._max_words,
                thread=2,
                verbose=0,
            )

    def predict_proba(self, texts: Texts) -> Floats:
        """Predict the class probabilities of texts with the fastText baseline.

        The shape is (n, C).
        """
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
    """Title of a baseline and a function that creates the untrained baseline."""

    title: str
    make: Callable[[], Baseline]


BASELINES: dict[str, BaselineKind] = {
    "tfidf": BaselineKind("TF-IDF + LR", lambda: TfidfLinear("lr", words=(1, 2))),
    "tfidf-svc": BaselineKind("TF-IDF + SVC", lambda: TfidfLinear("svc", words=(1, 2))),
    "tfidf-chars": BaselineKind(
        "TF-IDF words and characters + SVC",
        lambda: TfidfLinear("svc", words=(1, 2), characters=True),
    ),
    "fasttext": BaselineKind("fastText", lambda: FastText(max_words=1)),
    "fasttext-bigrams": BaselineKind("fastText bigrams", lambda: FastText(max_words=2)),
}
