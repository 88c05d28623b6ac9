"""Every name that a sentence of ``words.py`` may have in braces, and how it is computed."""

from collections.abc import Callable

from paper import findings, word_weights
from paper.accuracy_tables import best_on_validation, probe
from paper.intervals import scores
from paper.measures import Measures
from paper.protocol import MINILM, PROBES, chosen_heads
from paper.published import accuracy as published
from paper.records import Results
from paper.tables import NONE, share


class Lookup:
    """A part of a sentence by ``[ROW]`` or ``[ROW,COLUMN]``."""

    def __init__(self, find: Callable[..., str]) -> None:
        self._find = find

    def __getitem__(self, place: str) -> str:
        return self._find(*place.split(","))


def values(results: Results) -> dict[str, object]:
    """By name."""
    return {**_accuracies(results), **_statements(results), **_attention(results)}


def _accuracies(results: Results) -> dict[str, object]:
    """Of a system on a set: its mean, its best seed on validation, its first seed, the paper's."""

    def first(model: str, dataset: str) -> str:
        return share(_first(results, dataset, model))

    def valid(model: str, dataset: str) -> str:
        found = [
            r.number
            for r in results.of("accuracy")
            if (r.dataset, r.model, r.metric) == (dataset, model, "valid_accuracy")
        ]
        return share(max(found, default=None))

    return {
        "ours": Lookup(lambda m, d: share(findings.mean(scores(results, d, m)))),
        "best": Lookup(lambda m, d: share(best_on_validation(results, d, m))),
        "paper": Lookup(lambda m, d: share(published(m, d))),
        "gap": Lookup(lambda m, d: _points(best_on_validation(results, d, m), published(m, d))),
        "first": Lookup(first),
        "valid": Lookup(valid),
        "probe": Probes(lambda name: share(_probed(results, name))),
        "lost": Probes(lambda name: _lost(results, name)),
    }


class Probes(Lookup):
    """A probe by its name, which may hold commas."""

    def __getitem__(self, place: str) -> str:
        return self._find(place)


def _statements(results: Results) -> dict[str, object]:
    return {
        "against-paper": findings.against_paper(results),
        "told": Lookup(lambda model: findings.told(results, model)),
        "said": Lookup(findings.published_above),
        "above": Lookup(lambda one, other: findings.above(results, one, other)),
        "chance": Lookup(lambda dataset: findings.at_chance(results, dataset)),
        "linear": findings.linear_above(results),
        "moved": Lookup(lambda dataset: findings.moved(results, dataset)),
        "shift": Lookup(lambda name, dataset: findings.shift(results, dataset, name)),
        "steady": findings.steady(results),
        "falls": Lookup(lambda model: findings.falls(results, model)),
        "margin": Lookup(lambda dataset: findings.margin(results, dataset)),
        "many": Lookup(lambda model: findings.range_of_many(results, model)),
        "worst": Lookup(lambda model: findings.worst_with_one(results, model)),
        "heads-of": Lookup(lambda model, d: _known(chosen_heads(results.of("heads"), d, model))),
        "repeats": findings.repeats(results),
        "minilm": findings.listed([f"{key.split('.')[1]} {value}" for key, value in MINILM[1:]]),
        "measure": Measures(results),
    }


def _attention(results: Results) -> dict[str, object]:
    groups = word_weights.shifted(results)
    return {
        "span": word_weights.span(results),
        "span-sharp": word_weights.span(results, word_weights.SHARP),
        "shifted": {name: findings.listed(words) for name, words in groups.items()},
    }


def _first(results: Results, dataset: str, model: str) -> float | None:
    return next((r.number for r in scores(results, dataset, model) if r.seed == 0), None)


def _probed(results: Results, name: str) -> float | None:
    found = probe(results, name)
    return None if found is None else found.number


def _lost(results: Results, name: str) -> str:
    """Points between the same seed of the unchanged system and the probe."""
    dataset, model, _ = PROBES[name]
    return _points(_first(results, dataset, model), _probed(results, name))


def _points(one: float | None, other: float | None) -> str:
    return NONE if one is None or other is None else f"{100 * (one - other):.1f}"


def _known(value: object) -> str:
    return NONE if value is None else str(value)
