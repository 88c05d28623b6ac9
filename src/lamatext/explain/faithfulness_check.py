"""Whether a model's reasons hold: its words taken away from the text, and the text read anew.

Words go from the text itself, so what answers is the whole model, whatever parts it has.
Shapes: n texts, T words.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.text_encoder import Encoder
from lamatext.data.token_ids import FIRST_WORD, UNK, Ids
from lamatext.data.tokenizer import Span
from lamatext.errors import MissingExtraError
from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation
from lamatext.explain.faithfulness import SHARES, Faithfulness, Scores, measure
from lamatext.explain.integrated_gradients import integrated_gradients
from lamatext.progress import SILENT, Progress

if TYPE_CHECKING:
    from torch import nn

MOST = 200  # texts, unless told otherwise
STEPS = 16  # of the integrated gradients
GRADIENTS = "integrated gradients"


class Model(Protocol):
    """What predicts and says why: a ``Predictor``."""

    @property
    def encoder(self) -> Encoder:
        """What the network reads."""
        ...

    def predict_proba(self, texts: Iterable[str]) -> Floats:
        """(n, C)."""
        ...

    def explain(self, text: str) -> Explanation:
        """Why the text gets its label."""
        ...


def check_reasons(
    model: Model,
    texts: Sequence[str],
    *,
    network: "nn.Module | None" = None,
    most: int = MOST,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Faithfulness:
    """How far attention, contribution and, with a ``network``, integrated gradients are reasons.

    Args:
        model: a predictor.
        texts: what it is checked on; no labels are needed.
        network: the same model's torch network.
        most: of more texts, this many are drawn.
        seed: of the draw, the random order and the bootstrap.
        progress: told what is being done.
    """
    chosen = [texts[row] for row in sample(len(texts), most, seed)]
    progress.stage("asking for reasons", len(chosen))
    found = []
    for text in chosen:
        found.append(model.explain(text))
        progress.advance()
    scores: dict[str, Sequence[Scores]] = {}
    pooled = [explanation.pooled for explanation in found]
    if all(weights is not None for weights in pooled):
        scores["attention"] = [weights for weights in pooled if weights is not None]
    scores["contribution"] = [explanation.relative[explanation.best] for explanation in found]
    if network is not None:
        progress.stage(GRADIENTS)
        try:
            scores[GRADIENTS] = whole_gradients(model, network, found)
        except MissingExtraError as error:
            progress.note(f"left out: {error}")
    numbers, read = _numbered(found, model)
    versions = len(found) * 2 * len(SHARES) * (len(scores) + 1)
    progress.stage("taking words away", versions)

    def probabilities(batch: list[Ids]) -> Floats:
        progress.advance(len(batch))
        return read(batch)

    return measure(numbers, scores, probabilities, seed=seed)


def sample(count: int, most: int, seed: int) -> NDArray[np.int64]:
    """The places of at most ``most`` of ``count`` texts, ascending."""
    draw = np.random.default_rng(seed).permutation(count)[:most]
    return np.sort(draw)


def without_words(text: str, spans: Sequence[Span], kept: Sequence[int]) -> str:
    """The text with the kept words alone; what stood between neighbours still stands there."""
    pieces, last = [], None
    for t in kept:
        start, end = spans[t]
        if last is not None:
            pieces.append(text[spans[last][1] : start] if t == last + 1 else " ")
        pieces.append(text[start:end])
        last = t
    return "".join(pieces)


def whole_gradients(
    model: Model, network: "nn.Module", found: Sequence[Explanation]
) -> list[Floats]:
    """Integrated gradients of the network's words; what is linear beside it counts as it is."""
    encoded = [model.encoder.encode_with_spans(explanation.text) for explanation in found]
    targets = [explanation.best for explanation in found]
    gradients = integrated_gradients(
        network, [ids for ids, _ in encoded], targets=targets, steps=STEPS
    )
    scores = []
    for explanation, (_, spans), row in zip(found, encoded, gradients, strict=True):
        total = np.zeros(len(explanation.spans), np.float32)
        place = {span: t for t, span in enumerate(explanation.spans)}
        for span, value in zip(spans, row.tolist(), strict=True):
            if span in place:
                total[place[span]] += value
        for name, part in explanation.relative_parts.items():
            if name != "network":
                total += part[explanation.best]
        scores.append(total)
    return scores


class _Read(Protocol):
    def __call__(self, batch: list[Ids]) -> Floats: ...


def _numbered(found: Sequence[Explanation], model: Model) -> tuple[list[Ids], _Read]:
    """Each word of each text as a number of its own, and what reads texts of such numbers."""
    sizes = [len(explanation.spans) for explanation in found]
    starts = FIRST_WORD + np.concatenate([[0], np.cumsum(sizes)])
    numbers = [
        np.arange(start, end, dtype=np.int32)
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]

    def text_of(version: Ids) -> str:
        if version[0] == UNK:
            return ""
        owner = int(np.searchsorted(starts, version[0], side="right")) - 1
        explanation = found[owner]
        kept = (version - starts[owner]).tolist()
        return without_words(explanation.text, explanation.spans, kept)

    return numbers, lambda batch: model.predict_proba([text_of(version) for version in batch])
