"""The words that matter over many texts, by any predictor."""

from collections.abc import Iterator, Sequence

import numpy as np

from lamatext.data.token_ids import FIRST_WORD
from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation
from lamatext.explain.global_words import GlobalWords, TextRead, global_words
from lamatext.progress import SILENT, Progress
from lamatext.runtime.predictor import Predictor

TOP = 15  # words of a class or head; fewer of each where there are many classes
ALL = 900
OFTEN = 5  # a word must be met so often, over many texts


def words_of(
    predictor: Predictor, texts: Sequence[str], progress: Progress = SILENT
) -> GlobalWords:
    """Top words of each class and head; a word is what stands in the text, in lower case."""
    progress.stage("counting words", len(texts))
    known: dict[str, int] = {}
    found = []
    for text in texts:
        explanation = predictor.explain(text)
        for word in explanation.words:
            known.setdefault(word.lower(), len(known) + FIRST_WORD)
        found.append(explanation)
        progress.advance()
    return global_words(
        _reads(predictor, found, known),
        vocabulary=[""] * FIRST_WORD + list(known),
        labels=predictor.classes_.tolist(),
        top=max(3, min(TOP, ALL // len(predictor.classes_))),
        min_count=OFTEN if len(texts) >= 100 else 2,
    )


def _reads(
    predictor: Predictor, found: Sequence[Explanation], known: dict[str, int]
) -> Iterator[TextRead]:
    for explanation in found:
        yield TextRead(
            explanation.text,
            np.array([known[word.lower()] for word in explanation.words], np.int32),
            explanation.spans,
            explanation.relative,
            explanation.weights,
            _embedding(predictor, explanation),
        )


def _embedding(predictor: Predictor, explanation: Explanation) -> Floats | None:
    """The heads' rows of the text's embedding."""
    if explanation.weights is None or len(explanation.weights) < 2:
        return None
    ids, _ = predictor.encoder.encode_with_spans(explanation.text)
    result = predictor.engine.run(ids[None, :], np.array([len(ids)], np.int32))
    heads: Floats = result.embedding[0][: len(explanation.weights)]
    return heads
