"""A trained model at work: texts in, labels, probabilities, embeddings and reasons out.

Shapes: n texts, B texts in a batch, T words, D state width, M heads, C classes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import Ids, Ragged, by_length
from lamatext.data.tokenizer import Span
from lamatext.data.validation import check_texts
from lamatext.errors import DataError
from lamatext.explain.classifier_head import ClassifierHead, Floats
from lamatext.explain.contributions import Contributions, contributions
from lamatext.explain.explanation import Explanation
from lamatext.explain.occlusion import MOST, occlusion, occlusion_window
from lamatext.ngrams.model import NgramModel
from lamatext.runtime.engine import Engine, Result
from lamatext.runtime.parallel import ordered_map

CHUNK = 256  # texts that are encoded and sorted by length together
BATCH_WORDS = 2048  # words in one call of the engine, padding included: more leave the caches


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
    head: ClassifierHead | None = None  # None: the network is explained by leaving words out
    ngrams: NgramModel | None = None  # a linear model on n-grams beside the network
    versions: int = MOST  # of a text, at most, that are read to see what its words do

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "Predictor":
        """The model saved in ``folder``."""
        from lamatext.saved.model_io import load_predictor

        return load_predictor(folder)

    def predict(self, texts: Iterable[str]) -> NDArray[np.generic]:
        """The most probable label of each text: (n,)."""
        found: NDArray[np.generic] = self.classes[self._all_logits(texts).argmax(axis=1)]
        return found

    def predict_proba(self, texts: Iterable[str]) -> Floats:
        """The probability of each label, columns as ``classes``: (n, C)."""
        return softmax(self._all_logits(texts))

    def transform(self, texts: Iterable[str]) -> Floats:
        """The flattened embedding S of each text: (n, M·D)."""
        found = _each(self._embeddings, texts)
        return np.concatenate(found) if found else self._embeddings([""])[:0]

    def explain(self, text: str) -> Explanation:
        """Why ``text`` gets its label: weights by head, contributions by class, of each word."""
        check_texts([text])
        ids, spans = self.encoder.encode_with_spans(text)
        result = self.engine.run(ids[None, :], np.array([len(ids)], np.int32))
        exact = self.head is not None and result.weights is not None
        found, spans = self._why(ids, spans, result)
        explanation = Explanation(
            text=text,
            spans=spans,
            labels=self.classes.tolist(),
            probabilities=softmax(result.logits)[0],
            contributions=found.contributions,
            base=found.base,
            weights=None if result.weights is None else result.weights[0],
            method="contribution" if exact else "occlusion",
            window=1 if exact else occlusion_window(len(spans), self.versions),
        )
        return explanation if self.ngrams is None else self._beside(self.ngrams, explanation)

    def logits_of_words(self, texts: Sequence[Sequence[str]]) -> Floats:
        """Logits (n, C) of texts given as their words."""
        if not isinstance(self.encoder, TextEncoder):
            return self._network_logits(self.encoder.encode(map(" ".join, texts)))
        logits = self._network_logits(self.encoder.encode_words(texts))
        return logits if self.ngrams is None else logits + self.ngrams.logits(texts)

    def _all_logits(self, texts: Iterable[str]) -> Floats:
        found = _each(self._logits, texts)
        return np.concatenate(found) if found else np.empty((0, len(self.classes)), np.float32)

    def _logits(self, texts: list[str]) -> Floats:
        check_texts(texts)
        if isinstance(self.encoder, TextEncoder):
            return self.logits_of_words([self.encoder.tokenizer.words(text) for text in texts])
        return self._network_logits(self.encoder.encode(texts))

    def _embeddings(self, texts: list[str]) -> Floats:
        check_texts(texts)
        rows = self.encoder.encode(texts)
        batches = by_length(rows.lengths, words=BATCH_WORDS)
        flat = [self.engine.run(*rows.pad(batch)).embedding for batch in batches]
        order = np.argsort(np.concatenate(batches))
        return np.concatenate([part.reshape(len(part), -1) for part in flat])[order]

    def _network_logits(self, rows: Ragged) -> Floats:
        if len(rows) == 1:  # nothing to sort, nothing to pad
            return self.engine.logits(rows.ids[None, :], np.array([len(rows.ids)], np.int32))
        logits = np.empty((len(rows), len(self.classes)), np.float32)
        for batch in by_length(rows.lengths, words=BATCH_WORDS):
            logits[batch] = self.engine.logits(*rows.pad(batch))
        return logits

    def _why(self, ids: Ids, spans: list[Span], result: Result) -> tuple[Contributions, list[Span]]:
        """Contributions where the network has attention, else what each word's absence changes.

        The marks that a pretrained encoder sets before and after a text are no words: they stay.
        """
        if self.head is not None and result.weights is not None:
            return contributions(result, np.array([len(ids)]), self.head)[0], spans
        words = [place for place, (start, end) in enumerate(spans) if end > start]
        first, last = (words[0], words[-1] + 1) if words else (0, len(ids))
        before, after = ids[:first], ids[last:]

        def logits_of(texts: list[Ids]) -> Floats:
            rows = [np.concatenate([before, text, after]) for text in texts]
            return self._network_logits(Ragged.from_lists(rows))

        found = occlusion(ids[first:last], logits_of, most=self.versions)
        return found, spans[first:last]

    def _beside(self, ngrams: NgramModel, seen: Explanation) -> Explanation:
        """The explanation with the n-gram model's contributions; it reads every word of the text."""
        assert isinstance(self.encoder, TextEncoder)  # a n-gram model is only trained with words
        tokenizer = self.encoder.tokenizer
        words = tokenizer.words(seen.text)
        spans = tokenizer.spans(seen.text) or seen.spans  # without a word: the network's empty one
        place = {span: number for number, span in enumerate(spans)}
        read = [place[span] for span in seen.spans if span in place]  # what the network read
        network = np.zeros((len(self.classes), len(spans)), np.float32)
        network[:, read] = seen.contributions[:, : len(read)]
        grams = np.zeros_like(network)
        grams[:, : len(words)] = ngrams.contributions(words)
        base = seen.logits + ngrams.base - network.sum(axis=1)
        weights = None
        if seen.weights is not None:
            weights = np.zeros((len(seen.weights), len(spans)), np.float32)
            weights[:, read] = seen.weights[:, : len(read)]
        return replace(
            seen,
            spans=spans,
            weights=weights,
            contributions=network + grams,
            base=base,
            probabilities=softmax((network + grams).sum(axis=1)[None, :] + base)[0],
            parts={"network": network, "n-grams": grams},
        )


def _each(work: Callable[[list[str]], Floats], texts: Iterable[str]) -> list[Floats]:
    """``work`` of some texts at a time, on all cores where there are many."""
    if isinstance(texts, list) and len(texts) < CHUNK:
        return [work(texts)] if texts else []
    parts = chunks(texts, CHUNK)
    first = next(parts, None)
    if first is None:
        return []
    if len(first) < CHUNK:
        return [work(first)]
    return list(ordered_map(work, chain([first], parts)))


def softmax(logits: Floats) -> Floats:
    """Probabilities (n, C)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """The texts, some at a time."""
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one text. Wrap it in a list: [text].")
    if not isinstance(texts, Iterable):
        raise DataError(f"expected a list of texts, got {type(texts).__name__}.")
    iterator = iter(texts)
    while chunk := list(islice(iterator, size)):
        yield chunk
