"""Faithfulness of explanations: how predictions change when the highlighted words are removed.

The words of each text are ranked by attention, by contribution, by integrated gradients and at
random. For each ranking:

    deletion            probability of the predicted class without the first k words
    insertion           probability of the predicted class with the first k words alone
    comprehensiveness   p(text) − p(text without first k), mean over AOPC_SHARES; higher is better
    sufficiency         p(text) − p(first k alone), mean over the same shares; lower is better

[DeYoung et al. 2020, ERASER]. Words are removed from the text itself, so the whole model is
measured, n-grams included. Intervals are 95 % bootstrap intervals over texts, with the same
resamples for every ranking. Shapes: n texts, T words, C classes, F shares.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.text_encoder import Encoder
from lamatext.data.token_ids import FIRST_WORD, UNK, Ids
from lamatext.data.tokenizer import Span
from lamatext.errors import DataError, MissingExtraError, number_range, percent, require
from lamatext.explain.contributions import MAX_OCCLUSIONS, Floats, batches, without
from lamatext.explain.explanation import Explanation
from lamatext.explain.integrated_gradients import integrated_gradients
from lamatext.progress import SILENT, Progress

if TYPE_CHECKING:
    from torch import nn

Scores = NDArray[np.floating]  # (T,): the words with the highest scores are removed first
Table = NDArray[np.float64]
ProbabilitiesOf = Callable[[list[Ids]], NDArray[np.floating]]  # n texts → (n, C)

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
AOPC_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
VERDICT_SHARE = 0.2
MAX_TEXTS = 200
MAX_TEXTS_SLOW = 30  # for Transformers, which need minutes for more
GRADIENT_STEPS = 16
GRADIENTS = "integrated gradients"
RANDOM = "random"
RESAMPLES = 1000  # of the bootstrap


class Model(Protocol):
    """Protocol for models whose faithfulness can be measured, such as ``Predictor``."""

    @property
    def encoder(self) -> Encoder:
        """Text encoder that is needed to measure the faithfulness of integrated gradients."""
        ...

    @property
    def max_occlusions(self) -> int:
        """Maximum number of occlusions per text, which determines the faithfulness sample size."""
        ...

    def predict_proba(self, texts: Iterable[str]) -> Floats:
        """Predict the class probabilities of texts with words removed in a faithfulness test."""
        ...

    def explain(self, text: str) -> Explanation:
        """Explain the prediction for a text, in order to rank its words in a faithfulness test."""
        ...


class Estimate(NamedTuple):
    """Mean of a faithfulness metric over texts, with a 95 % bootstrap confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({number_range(self.low, self.high, 2)})"


@dataclass(frozen=True)
class Order:
    """Faithfulness metrics of a word ranking, measured by removing words in that order."""

    deletion: list[Estimate]  # F
    insertion: list[Estimate]  # F
    comprehensiveness: Estimate
    sufficiency: Estimate
    drop: Estimate  # loss of probability without the first 20 % of the words
    lead: Estimate  # that loss minus the loss without random words


@dataclass(frozen=True)
class Faithfulness:
    """Faithfulness metrics of several word rankings, measured on the same sample of texts."""

    texts: int
    shares: Sequence[float]
    orders: Mapping[str, Order]

    def as_dict(self) -> dict[str, object]:
        """Return the faithfulness metrics as a dictionary of JSON-serializable values."""
        return {
            "texts": self.texts,
            "shares": list(self.shares),
            "orders": {name: asdict(order) for name, order in self.orders.items()},
            "verdict": self.verdict(),
        }

    def verdict(self, name: str = "attention") -> str:
        """Return a sentence on how faithful the word ranking ``name`` is to the model."""
        if name not in self.orders:
            name = next(iter(self.orders))
        order = self.orders[name]
        phrases = {"attention": "most attended", "contribution": "most contributing"}
        words = phrases.get(name, f"first (by {name})")
        return (
            f"For this model, removing the {percent(VERDICT_SHARE, 0)} {words} words "
            f"lowers the predicted probability by {order.drop.value:.2f} (95 % interval "
            f"{number_range(order.drop.low, order.drop.high, 2)}), removing random words by "
            f"{self.orders[RANDOM].drop.value:.2f}: {self._judgement(name)}."
        )

    def _judgement(self, name: str) -> str:
        lead = self.orders[name].lead
        others = {other: o.lead for other, o in self.orders.items() if other not in (name, RANDOM)}
        if lead.low <= 0:
            return (
                f"{name} finds the decisive words no better than chance; "
                "do not read it as an explanation"
            )
        if not others:
            return f"{name} finds decisive words"
        best = max(others, key=lambda other: others[other].value)
        if "contribution" in others and others["contribution"].value >= 0.9 * others[best].value:
            best = "contribution"  # about as good, and shown in every view
        ratio = lead.value / max(others[best].value, 1e-9)
        if ratio >= 0.8:
            return f"{name} finds the decisive words about as well as {best}, or better"
        if ratio >= 0.4:
            return f"{name} finds words that matter, but {best} is the better guide"
        return f"{name} is a weak guide to the decisive words; use {best} instead"


def measure_faithfulness(
    model: Model,
    texts: Sequence[str],
    *,
    load_network: "Callable[[], nn.Module] | None" = None,
    max_texts: int | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Faithfulness:
    """Measure how faithfully attention, contributions and integrated gradients explain a model.

    Args:
        model: a predictor.
        texts: the texts to sample from; no labels are needed.
        load_network: returns the torch network of the same model; without it, or without torch
            and captum, integrated gradients are left out.
        max_texts: size of the sample; None means 200, or 30 for slow models.
        seed: seed of the sample, of the random ranking and of the bootstrap.
        progress: receives the stages of the work.
    """
    if max_texts is None:
        max_texts = MAX_TEXTS_SLOW if is_slow(model) else MAX_TEXTS
    rows = sample_rows(len(texts), max_texts, seed)
    progress.stage("explaining a sample of texts", len(rows))
    explanations = []
    for row in rows:
        explanations.append(model.explain(texts[row]))
        progress.advance()
    scores: dict[str, Sequence[Scores]] = {}
    attention = [e.pooled for e in explanations if e.pooled is not None]
    if attention and len(attention) == len(explanations):
        scores["attention"] = attention
    scores["contribution"] = [e.relative[e.best] for e in explanations]
    if load_network is not None and not explanations[0].is_by_ngrams_alone:
        progress.stage(GRADIENTS)
        try:
            scores[GRADIENTS] = _gradient_scores(model, load_network, explanations)
        except MissingExtraError as error:
            progress.note(f"left out: {error}")
    numbered, probabilities_of = _numbered_words(explanations, model)
    versions = len(explanations) * 2 * len(SHARES) * (len(scores) + 1)
    progress.stage("predicting with words removed", versions)

    def probabilities(batch: list[Ids]) -> NDArray[np.floating]:
        progress.advance(len(batch))
        return probabilities_of(batch)

    return compare_orders(numbered, scores, probabilities, seed=seed)


def is_slow(model: Model) -> bool:
    """Return whether a model is so slow that faithfulness needs a smaller sample of texts."""
    return model.max_occlusions < MAX_OCCLUSIONS


def sample_rows(count: int, size: int, seed: int) -> NDArray[np.int64]:
    """Draw a sorted random sample of text indices for a faithfulness measurement."""
    return np.sort(np.random.default_rng(seed).permutation(count)[:size])


def keep_words(text: str, spans: Sequence[Span], words: Sequence[int]) -> str:
    """Reduce a text to the given words for a faithfulness test.

    The gap between adjacent words is kept; other gaps become a space.
    """
    pieces, last = [], None
    for t in words:
        start, end = spans[t]
        if last is not None:
            pieces.append(text[spans[last][1] : start] if t == last + 1 else " ")
        pieces.append(text[start:end])
        last = t
    return "".join(pieces)


def _gradient_scores(
    model: Model, load_network: "Callable[[], nn.Module]", explanations: Sequence[Explanation]
) -> list[Floats]:
    """Score words by integrated gradients plus n-gram contributions for a faithfulness test."""
    for package, extra in (("torch", "train"), ("captum", "explain")):
        require(package, extra=extra, purpose=GRADIENTS)
    encoded = [model.encoder.encode_with_spans(explanation.text) for explanation in explanations]
    gradients = integrated_gradients(
        load_network(),
        [ids for ids, _ in encoded],
        targets=[explanation.best for explanation in explanations],
        steps=GRADIENT_STEPS,
    )
    scores = []
    for explanation, (_, spans), row in zip(explanations, encoded, gradients, strict=True):
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


def _numbered_words(
    explanations: Sequence[Explanation], model: Model
) -> tuple[list[Ids], ProbabilitiesOf]:
    """Assign a unique number to every word in the faithfulness sample.

    A text with words removed is then a shorter array of numbers.

    Returns:
        The word numbers of each text, and a function that predicts from such arrays.
    """
    sizes = [len(explanation.spans) for explanation in explanations]
    starts = FIRST_WORD + np.concatenate([[0], np.cumsum(sizes)])
    numbered = [
        np.arange(start, end, dtype=np.int32)
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]

    def text_of(numbers: Ids) -> str:
        if numbers[0] == UNK:
            return ""
        owner = int(np.searchsorted(starts, numbers[0], side="right")) - 1
        explanation = explanations[owner]
        return keep_words(explanation.text, explanation.spans, (numbers - starts[owner]).tolist())

    return numbered, lambda batch: model.predict_proba([text_of(numbers) for numbers in batch])


def compare_orders(
    texts: Sequence[Ids],
    scores: Mapping[str, Sequence[Scores]],
    probabilities: ProbabilitiesOf,
    *,
    seed: int = 0,
) -> Faithfulness:
    """Compare the faithfulness of several word rankings with that of a random ranking.

    Args:
        texts: the token ids of each text.
        scores: for each ranking, one score per word of each text; the highest go first.
        probabilities: the model, called with batches of about 65,536 words.
        seed: seed of the random ranking and of the bootstrap.
    """
    if not texts:
        raise DataError("faithfulness needs at least one text, got none.")
    random = np.random.default_rng(seed)
    random_scores = [random.random(len(text)) for text in texts]  # nosec B311 # numpy
    curves = {
        name: _curves(texts, values, probabilities)
        for name, values in {**scores, RANDOM: random_scores}.items()
    }
    draws = random.integers(0, len(texts), (RESAMPLES, len(texts)))
    place = SHARES.index(VERDICT_SHARE)
    drops = {name: table[:, 0, 0] - table[:, 0, place] for name, table in curves.items()}
    orders = {
        name: _order(table, drops[name], drops[name] - drops[RANDOM], draws)
        for name, table in curves.items()
    }
    return Faithfulness(len(texts), SHARES, orders)


def _curves(
    texts: Sequence[Ids], scores: Sequence[Scores], probabilities: ProbabilitiesOf
) -> Table:
    """Compute the deletion and insertion curves (n, 2, F) of each text for faithfulness metrics."""
    versions: list[Ids] = []
    for text, values in zip(texts, scores, strict=True):
        order = np.argsort(-np.asarray(values), kind="stable")
        cuts = [first_words(share, len(text)) for share in SHARES]
        versions += [without(text, order[:cut]) for cut in cuts]
        versions += [without(text, order[cut:]) for cut in cuts]
    rows = _predict_by_length(versions, probabilities).reshape(len(texts), 2, len(SHARES), -1)
    predicted = rows[:, 0, 0].argmax(axis=-1)  # (n,): the class of the whole text
    table: Table = rows[np.arange(len(texts)), :, :, predicted]
    return table


def first_words(share: float, words: int) -> int:
    """Return how many words a faithfulness test removes for a given fraction of a text.

    The number is at least 1, unless the share is 0.
    """
    return max(round(share * words), 1) if share else 0


def _predict_by_length(versions: list[Ids], probabilities: ProbabilitiesOf) -> Table:
    """Predict probabilities for a faithfulness test, sorting the texts to minimize padding."""
    order = sorted(range(len(versions)), key=lambda i: len(versions[i]))
    rows = np.concatenate([probabilities(b) for b in batches([versions[i] for i in order])])
    table = np.empty(rows.shape, dtype=np.float64)
    table[order] = rows
    return table


def _order(table: Table, drop: Table, lead: Table, draws: NDArray[np.int64]) -> Order:
    aopc = [SHARES.index(share) for share in AOPC_SHARES]
    losses = table[:, :1, :1] - table[:, :, aopc]  # (n, 2, shares)
    deletion, insertion = ([_estimate(curve, draws) for curve in table[:, i].T] for i in (0, 1))
    return Order(
        deletion=deletion,
        insertion=insertion,
        comprehensiveness=_estimate(losses[:, 0].mean(axis=1), draws),
        sufficiency=_estimate(losses[:, 1].mean(axis=1), draws),
        drop=_estimate(drop, draws),
        lead=_estimate(lead, draws),
    )


def _estimate(values: Table, draws: NDArray[np.int64]) -> Estimate:
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))
