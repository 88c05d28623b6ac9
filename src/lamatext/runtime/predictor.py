"""A trained model at work: texts in, labels, probabilities, embeddings and reasons out.

Shapes: n texts, B texts in a batch, T words, D state width, M heads, C classes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.inputs import check_texts
from lamatext.data.ragged import Ids, Ragged, by_length
from lamatext.data.tokens import Span
from lamatext.errors import DataError
from lamatext.explain.contributions import Contributions, contributions
from lamatext.explain.explanation import Explanation
from lamatext.explain.head import ClassifierHead, Floats
from lamatext.explain.occlusion import occlusion, occlusion_window
from lamatext.runtime.engine import Engine, Result

CHUNK = 2048  # texts that are encoded and sorted by length together
BATCH_WORDS = 8192  # words in one call of the engine, padding included


class Encoder(Protocol):
    """What turns texts into ids: words, or a pretrained model's subwords."""

    def encode(self, texts: Iterable[str]) -> Ragged:
        """The ids of each text."""
        ...

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """The ids of one text and where each stands in it."""
        ...


@dataclass(frozen=True, slots=True)
class Predictor:
    """Predicts with a saved model; needs neither torch nor scikit-learn."""

    engine: Engine
    encoder: Encoder
    classes: NDArray[np.generic]  # (C,): the labels, str or int
    head: ClassifierHead | None = None  # None: the model is explained by leaving words out

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "Predictor":
        """The model saved in ``folder``."""
        from lamatext.store import load_predictor

        return load_predictor(folder)

    def predict(self, texts: Iterable[str]) -> NDArray[np.generic]:
        """The most probable label of each text: (n,)."""
        return self.classes[self.predict_proba(texts).argmax(axis=1)]

    def predict_proba(self, texts: Iterable[str]) -> Floats:
        """The probability of each label, columns as ``classes``: (n, C)."""
        found = [softmax(self._logits(rows)) for rows in self._encoded(texts)]
        return np.concatenate(found) if found else np.empty((0, len(self.classes)), np.float32)

    def transform(self, texts: Iterable[str]) -> Floats:
        """The flattened embedding S of each text: (n, M·D)."""
        found = [self._embeddings(rows) for rows in self._encoded(texts)]
        return np.concatenate(found) if found else np.empty((0, 0), np.float32)

    def explain(self, text: str) -> Explanation:
        """Why ``text`` gets its label: weights by head, contributions by class, of each word."""
        check_texts([text])
        ids, spans = self.encoder.encode_with_spans(text)
        result = self._read(ids)
        found, window = self._contributions(ids, result)
        return Explanation(
            text=text,
            spans=spans,
            labels=self.classes.tolist(),
            probabilities=softmax(result.logits)[0],
            contributions=found.contributions,
            base=found.base,
            weights=None if result.weights is None else result.weights[0],
            method="contribution" if self.explains_exactly(result) else "occlusion",
            window=window,
        )

    def explains_exactly(self, result: Result) -> bool:
        """Whether the contributions of the words add up to the logits by themselves."""
        return self.head is not None and result.weights is not None

    def logits_of(self, texts: Sequence[Ids]) -> Floats:
        """Logits (n, C) of texts given as ids."""
        return self._logits(Ragged.from_lists(texts))

    def _contributions(self, ids: Ids, result: Result) -> tuple[Contributions, int]:
        if self.head is not None and result.weights is not None:
            return contributions(result, [len(ids)], self.head)[0], 1
        return occlusion(ids, self.logits_of), occlusion_window(len(ids))

    def _read(self, ids: Ids) -> Result:
        return self.engine.run(ids[None, :], np.array([len(ids)], np.int32))

    def _encoded(self, texts: Iterable[str]) -> Iterator[Ragged]:
        for chunk in chunks(texts, CHUNK):
            check_texts(chunk)
            yield self.encoder.encode(chunk)

    def _logits(self, rows: Ragged) -> Floats:
        logits = np.empty((len(rows), len(self.classes)), np.float32)
        for batch in by_length(rows.lengths, words=BATCH_WORDS):
            logits[batch] = self.engine.logits(*rows.pad(batch))
        return logits

    def _embeddings(self, rows: Ragged) -> Floats:
        batches = by_length(rows.lengths, words=BATCH_WORDS)
        flat = [self.engine.run(*rows.pad(batch)).embedding for batch in batches]
        order = np.argsort(np.concatenate(batches))
        return np.concatenate([part.reshape(len(part), -1) for part in flat])[order]


def softmax(logits: Floats) -> Floats:
    """Probabilities (n, C)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """The texts, some at a time."""
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one text. Wrap it in a list: [text].")
    iterator = iter(texts)
    while chunk := list(islice(iterator, size)):
        yield chunk
