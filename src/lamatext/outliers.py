"""Outlier scores: how much a text differs from the training and validation texts.

A text is unusual if no class gets much evidence, or if the model knows few of its words. With the
logits g of the n-gram model, its biases b, the logits n of the network and the share κ of words in
the vocabulary,

    evidence = κ · max_c (g_c + n_c / 2) + (1 − κ) · min_c b_c

Unknown words are evidence for no class: they count like the bias of the rarest class, however
frequent another class is. A text without known words (κ = 0) has no evidence at all. Compared with
the validation texts, which are scored by models that were not trained on them, the evidence becomes
a score with a meaning: a text with the score 0.99 is more unusual than 99 % of the validation
texts, and a text with a score above 1 is more unusual than all of them.
Shapes: n texts, C classes.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

OUTLIER = 0.99  # a score from which a text counts as an outlier
NETWORK_FACTOR = np.float32(0.5)
NO_EVIDENCE = np.float32(-1e6)  # of a text without known words
STEPS = 100  # quantiles of the validation texts' evidence

Floats = NDArray[np.float32]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ValidationStatistics:
    """Statistics of the validation texts, used as the reference for outlier scores and drift."""

    texts: int
    words: int
    unknown_words: int  # outside the vocabulary
    labels: tuple[int, ...]  # predictions of each label (C)
    evidence: tuple[float, ...]  # quantiles 0 to 1, ascending (STEPS + 1)

    def as_dict(self) -> dict[str, Any]:
        """Return the reference statistics for outlier scores as a JSON-compatible dictionary."""
        counts = {"texts": self.texts, "words": self.words, "unknown_words": self.unknown_words}
        return {**counts, "labels": list(self.labels), "evidence": list(self.evidence)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ValidationStatistics":
        """Create the reference statistics for outlier scores from their JSON form."""
        return cls(
            values["texts"], values["words"], values["unknown_words"],
            tuple(values["labels"]), tuple(values["evidence"]),
        )  # fmt: skip


def text_evidence(
    network: Floats, ngrams: Floats | None, base: Floats | None, known: Floats
) -> Floats:
    """Compute the evidence for each text's outlier score from its logits and its known words.

    Args:
        network: logits of the network (n, C).
        ngrams: logits of the n-gram model (n, C), or None.
        base: the n-gram model's logits for a text without known n-grams (C,) or (n, C), or None.
        known: share of words in the vocabulary (n,).
    """
    logits = network * NETWORK_FACTOR
    if ngrams is not None:
        logits = logits + ngrams
    evidence = known * logits.max(axis=1)
    if base is not None:
        evidence = evidence + (1 - known) * base.min(axis=-1)
    return np.where(known > 0, evidence, NO_EVIDENCE).astype(np.float32)


def known_share(words: Counts, unknown_words: Counts) -> Floats:
    """Compute the share of known words in each text, for outlier scores.

    It is 0 for a text without words.
    """
    shares: Floats = ((words - unknown_words) / np.maximum(words, 1)).astype(np.float32)
    return shares


def collect_statistics(
    evidence: Floats, words: Counts, unknown_words: Counts, labels: Sequence[int]
) -> ValidationStatistics:
    """Compute the validation statistics to which outlier scores and drift are relative.

    Args:
        evidence: evidence of each text (n,), from models not trained on it.
        words: number of words of each text (n,).
        unknown_words: number of these outside the vocabulary (n,).
        labels: number of predictions of each label (C).
    """
    quantiles = np.quantile(evidence, np.linspace(0, 1, STEPS + 1))
    return ValidationStatistics(
        texts=len(evidence),
        words=int(words.sum()),
        unknown_words=int(unknown_words.sum()),
        labels=tuple(int(count) for count in labels),
        evidence=tuple(float(f"{quantile:.6g}") for quantile in quantiles),
    )


def outlier_scores(evidence: Floats, reference: Sequence[float]) -> NDArray[np.float64]:
    """Compute the outlier score of each text: the share of validation texts that are less unusual.

    For evidence below the lowest quantile, the score exceeds 1 by the distance to that quantile, in
    units of the distance from the lowest quantile to the median; it is 2 for a text without any
    evidence.
    """
    return np.array([_outlier_score(value, reference) for value in evidence.tolist()])


def _outlier_score(evidence: float, quantiles: Sequence[float]) -> float:
    lowest, last = quantiles[0], len(quantiles) - 1
    if evidence < lowest:
        if evidence <= NO_EVIDENCE:
            return 2.0
        return 1 + (lowest - evidence) / max(quantiles[last // 2] - lowest, 1e-6)
    above = bisect_right(quantiles, evidence)
    if above > last:
        return 0.0
    low, high = quantiles[above - 1], quantiles[above]
    return 1 - (above - 1 + (evidence - low) / (high - low)) / last


def outlier_json(score: float) -> dict[str, float | bool]:
    """Return an outlier score, and whether it indicates an outlier, as JSON fields."""
    return {"outlier_score": round(float(score), 6), "outlier": bool(score >= OUTLIER)}
