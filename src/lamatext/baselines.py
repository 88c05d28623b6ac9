"""What a user would pick instead, on the same texts: TF-IDF with a linear model, fastText."""

import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.tokenizer import WordTokenizer
from lamatext.errors import ConfigError, require
from lamatext.metrics import Scores, score

Texts = Sequence[str]
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Baseline(Protocol):
    """Something that can be fitted and asked, and knows what it weighs."""

    def fit(self, texts: Texts, labels: Numbers) -> None:
        """Train on texts and class numbers."""
        ...

    def probabilities(self, texts: Texts) -> Floats:
        """(n, C); those of a model without probabilities are a softmax of its scores."""
        ...

    def size(self) -> int:
        """Bytes on disk."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a leaderboard."""

    model: str
    accuracy: float
    macro_f1: float
    calibration_error: float
    bytes: int
    texts_per_second: float
    seconds: float  # to train

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


class TfidfLinear:
    """scikit-learn's TF-IDF and a linear model on it."""

    def __init__(self, linear: str, *, words: tuple[int, int], characters: bool = False) -> None:
        text = require("sklearn.feature_extraction.text", extra="train", purpose="TF-IDF")
        pipeline = require("sklearn.pipeline", extra="train", purpose="TF-IDF")
        parts = [("words", text.TfidfVectorizer(ngram_range=words, **_COMMON))]
        if characters:
            grams = text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), **_COMMON)
            parts.append(("characters", grams))
        strength = 0.5 if characters else 1.0
        self._steps = pipeline.make_pipeline(
            pipeline.FeatureUnion(parts), _linear(linear, strength)
        )

    def fit(self, texts: Texts, labels: Numbers) -> None:
        """Train on texts and class numbers."""
        self._steps.fit(texts, labels)

    def probabilities(self, texts: Texts) -> Floats:
        """(n, C)."""
        if hasattr(self._steps, "predict_proba"):
            found: Floats = self._steps.predict_proba(texts)
            return found
        margins = self._steps.decision_function(texts)
        if margins.ndim == 1:
            margins = np.stack([-margins, margins], axis=1)
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def size(self) -> int:
        """Bytes of the pickle, which is how people save it."""
        return len(pickle.dumps(self._steps))


_COMMON = {"sublinear_tf": True, "min_df": 2}


def _linear(name: str, strength: float) -> Any:
    if name == "svc":
        return require("sklearn.svm", extra="train", purpose="LinearSVC").LinearSVC(C=strength)
    linear_model = require("sklearn.linear_model", extra="train", purpose="LogisticRegression")
    return linear_model.LogisticRegression(C=10, max_iter=1000)


class FastText:
    """fastText with word n-grams up to ``grams``; its texts are shuffled, as its SGD needs."""

    def __init__(self, *, grams: int) -> None:
        self._library = require("fasttext", extra="baselines", purpose="the baseline fastText")
        self._grams = grams
        self._model: Any = None
        self._classes = 0

    def fit(self, texts: Texts, labels: Numbers) -> None:
        """Train on texts and class numbers."""
        self._classes = int(labels.max()) + 1
        order = np.random.default_rng(0).permutation(len(texts))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            with path.open("w", encoding="utf-8") as file:
                for row in order:
                    file.write(f"__label__{labels[row]} {_one_line(texts[row])}\n")
            self._model = self._library.train_supervised(
                str(path), dim=100, epoch=10, lr=0.5, wordNgrams=self._grams, thread=2, verbose=0
            )

    def probabilities(self, texts: Texts) -> Floats:
        """(n, C)."""
        found = np.zeros((len(texts), self._classes))
        for row, text in enumerate(texts):
            # The wrapper's own predict breaks on numpy 2; this is what it calls.
            for probability, label in self._model.f.predict(
                f"{_one_line(text)}\n", self._classes, 0.0, "strict"
            ):
                found[row, int(label.removeprefix("__label__"))] = probability
        return found

    def size(self) -> int:
        """Bytes of its .bin file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.bin"
            self._model.save_model(str(path))
            return path.stat().st_size


BASELINES: dict[str, tuple[str, Callable[[], Baseline]]] = {
    "tfidf": ("TF-IDF + LR", lambda: TfidfLinear("lr", words=(1, 2))),
    "tfidf-svc": ("TF-IDF + SVC", lambda: TfidfLinear("svc", words=(1, 2))),
    "tfidf-chars": (
        "TF-IDF words and characters + SVC",
        lambda: TfidfLinear("svc", words=(1, 2), characters=True),
    ),
    "fasttext": ("fastText", lambda: FastText(grams=1)),
    "fasttext-bigrams": ("fastText bigrams", lambda: FastText(grams=2)),
}


def check_baselines(names: Sequence[str]) -> None:
    """Every name is one that ``measure`` knows, or ``avg``."""
    for name in names:
        if name not in (*BASELINES, "avg"):
            raise ConfigError(f"unknown baseline {name!r}. Known: {', '.join(BASELINES)}, avg.")
        if name.startswith("fasttext"):
            require("fasttext", extra="baselines", purpose="the baseline fastText")


def measure(
    name: str, train: tuple[Texts, Numbers], test: tuple[Texts, Numbers], labels: Sequence[object]
) -> Row:
    """Train the baseline of that name and score it on the test texts."""
    check_baselines([name])
    title, make = BASELINES[name]
    baseline, started = make(), time.perf_counter()
    baseline.fit(*train)
    seconds, started = time.perf_counter() - started, time.perf_counter()
    probabilities = baseline.probabilities(test[0])
    speed = len(test[0]) / (time.perf_counter() - started)
    return row_of(title, score(labels, test[1], probabilities), baseline.size(), speed, seconds)


def row_of(title: str, scores: Scores, size: int, speed: float, seconds: float) -> Row:
    """A line of the leaderboard from what was measured."""
    return Row(
        model=title,
        accuracy=scores.accuracy,
        macro_f1=scores.macro_f1,
        calibration_error=scores.calibration_error,
        bytes=size,
        texts_per_second=speed,
        seconds=seconds,
    )


def _one_line(text: str) -> str:
    """The text as fastText's own guide prepares it: in small letters, signs apart from words."""
    return " ".join(WordTokenizer().words(text))
