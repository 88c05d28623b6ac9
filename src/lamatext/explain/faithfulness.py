"""How far a reason can be trusted: take the words it points at away, and see what happens.

For each text the words are put in an order (by attention, by contribution, at random, …). Then

    deletion            the predicted class's probability without the first k words
    insertion           its probability with the first k words alone
    comprehensiveness   p(text) − p(text without them), the mean over AOPC's shares; high is good
    sufficiency         p(text) − p(they alone), the mean over the same shares; low is good

[DeYoung et al. 2020, ERASER]. Intervals are 95 % of a bootstrap over the texts, the same draws for
every order. Shapes: n texts, T words, C classes, F shares.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import Ids
from lamatext.errors import DataError
from lamatext.explain.occlusion import batches, without

Scores = NDArray[np.floating]  # (T,): the higher, the earlier in the order
Table = NDArray[np.float64]
ProbabilitiesOf = Callable[[list[Ids]], NDArray[np.floating]]  # n texts → (n, C)

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
AOPC = (0.01, 0.05, 0.1, 0.2, 0.5)
TOLD = 0.2  # the share that the verdict speaks of
RANDOM = "random"


class Estimate(NamedTuple):
    """A mean over the texts, and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Order:
    """What one order of the words does to the predicted class's probability."""

    deletion: list[Estimate]  # F
    insertion: list[Estimate]  # F
    comprehensiveness: Estimate
    sufficiency: Estimate
    drop: Estimate  # what the probability loses without the first 20 % of the words
    lead: Estimate  # the same, less the loss with random words


@dataclass(frozen=True)
class Faithfulness:
    """The orders side by side, over one sample of texts."""

    texts: int
    shares: Sequence[float]
    orders: Mapping[str, Order]

    def as_dict(self) -> dict[str, object]:
        """Plain lists and numbers; an estimate is [value, low, high]."""
        return {
            "texts": self.texts,
            "shares": list(self.shares),
            "orders": {
                name: {
                    "deletion": [list(point) for point in order.deletion],
                    "insertion": [list(point) for point in order.insertion],
                    "comprehensiveness": list(order.comprehensiveness),
                    "sufficiency": list(order.sufficiency),
                    "drop": list(order.drop),
                    "lead": list(order.lead),
                }
                for name, order in self.orders.items()
            },
            "verdict": self.verdict(),
        }

    def verdict(self, name: str = "attention") -> str:
        """One sentence: how far the order of that name can be trusted for this model."""
        if name not in self.orders:
            name = next(iter(self.orders))
        order = self.orders[name]
        known = {"attention": "most attended", "contribution": "most contributing"}
        words = known.get(name, f"first (by {name})")
        return (
            f"For this model, removing the {TOLD:.0%} {words} words "
            f"lowers the predicted probability by {order.drop}, random words by "
            f"{self.orders[RANDOM].drop.value:.2f}: {self._judgement(name)}."
        )

    def _judgement(self, name: str) -> str:
        lead = self.orders[name].lead
        baselines = {
            other: o.lead for other, o in self.orders.items() if other not in (name, RANDOM)
        }
        if lead.low <= 0:
            return (
                f"{name} tells no more than chance about what decides, do not read it as a reason"
            )
        if not baselines:
            return f"{name} points at words that decide"
        best = max(baselines, key=lambda other: baselines[other].value)
        if (
            "contribution" in baselines
            and baselines["contribution"].value >= 0.9 * baselines[best].value
        ):
            best = "contribution"  # about as good, and what every view shows
        part = lead.value / max(baselines[best].value, 1e-9)
        if part >= 0.8:
            return f"{name} points at the words that decide, about as well as {best} or better"
        if part >= 0.4:
            return f"{name} points at words that matter, but {best} is the better guide"
        return f"{name} is a weak guide to what decides, use {best} instead"


def measure(
    texts: Sequence[Ids],
    scores: Mapping[str, Sequence[Scores]],
    probabilities: ProbabilitiesOf,
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> Faithfulness:
    """Compare the orders that ``scores`` gives the words of ``texts``, and a random one.

    Args:
        texts: the ids of each text.
        scores: by name, a score for each word of each text; the highest go first.
        probabilities: the model, called with batches of about 65,536 words.
        seed: of the random order and of the bootstrap.
        resamples: draws of the bootstrap.
    """
    if not texts:
        raise DataError("faithfulness needs at least one text.")
    random = np.random.default_rng(seed)
    chance = [random.random(len(text)) for text in texts]
    tables = {
        name: _curves(texts, given, probabilities)
        for name, given in {**scores, RANDOM: chance}.items()
    }
    draws = random.integers(0, len(texts), (resamples, len(texts)))
    drops = {name: table[:, 0, :1] - table[:, 0] for name, table in tables.items()}
    told = SHARES.index(TOLD)
    orders = {
        name: _summary(table, drops[name][:, told] - drops[RANDOM][:, told], draws)
        for name, table in tables.items()
    }
    return Faithfulness(len(texts), SHARES, orders)


def _curves(
    texts: Sequence[Ids], scores: Sequence[Scores], probabilities: ProbabilitiesOf
) -> Table:
    """The predicted class's probability without, and with only, the first words: (n, 2, F)."""
    versions: list[Ids] = []
    for text, given in zip(texts, scores, strict=True):
        order = np.argsort(-np.asarray(given), kind="stable")
        cuts = [first_words(share, len(text)) for share in SHARES]
        versions += [without(text, order[:cut]) for cut in cuts]
        versions += [without(text, order[cut:]) for cut in cuts]
    found = _all_probabilities(versions, probabilities).reshape(len(texts), 2, len(SHARES), -1)
    predicted = found[:, 0, 0].argmax(axis=-1)  # (n,): the class of the whole text
    table: Table = found[np.arange(len(texts)), :, :, predicted]
    return table


def first_words(share: float, words: int) -> int:
    """How many words a share is: at least one, unless it is none."""
    return max(round(share * words), 1) if share else 0


def _all_probabilities(versions: list[Ids], probabilities: ProbabilitiesOf) -> Table:
    """Read the versions in the order of their lengths, so that little is padding: (n, C)."""
    order = sorted(range(len(versions)), key=lambda i: len(versions[i]))
    rows = np.concatenate([probabilities(b) for b in batches([versions[i] for i in order])])
    found = np.empty(rows.shape, dtype=np.float64)
    found[order] = rows
    return found


def _summary(table: Table, lead: Table, draws: NDArray[np.int64]) -> Order:
    whole = table[:, 0, 0]  # (n,)
    bins = [SHARES.index(share) for share in AOPC]
    losses = whole[:, None, None] - table[:, :, bins]  # (n, 2, bins)
    deletion, insertion = ([_estimate(curve, draws) for curve in table[:, i].T] for i in (0, 1))
    return Order(
        deletion=deletion,
        insertion=insertion,
        comprehensiveness=_estimate(losses[:, 0].mean(axis=1), draws),
        sufficiency=_estimate(losses[:, 1].mean(axis=1), draws),
        drop=_estimate(whole - table[:, 0, SHARES.index(TOLD)], draws),
        lead=_estimate(lead, draws),
    )


def _estimate(values: Table, draws: NDArray[np.int64]) -> Estimate:
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))
