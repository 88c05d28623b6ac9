"""What the counts and the times show, as figures for sentences; a dash where there is no record."""

from collections.abc import Callable

import numpy as np

from paper.counts import PARAMETER_HEADS
from paper.records import Results
from paper.tables import NONE
from paper.timing import LENGTHS, USUAL

FEWEST, MOST = PARAMETER_HEADS[0], PARAMETER_HEADS[-1]


class Measures:
    """A figure by its name; each is computed when a sentence asks for it."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def __getitem__(self, name: str) -> str:
        try:
            return _MEASURES[name](self._results)
        except LookupError as error:
            if name not in _MEASURES:
                raise KeyError(f"no measure is called {name!r}") from error
            return NONE


def _count(results: Results, model: str, part: str, heads: int, *, large: bool = True) -> float:
    """Parameters at the sizes of the paper's table, or at those of our recipe."""
    for record in results.of("parameters"):
        here = (record.model, record.metric, record.config["model.heads"])
        if here == (model, part, heads) and ("model.hidden_size" in record.config) == large:
            return record.number
    raise LookupError(part)


def _published(results: Results, model: str, heads: int) -> float:
    for record in results.of("parameters"):
        here = (record.model, record.metric, record.config["model.heads"])
        if here == (model, "total", heads) and record.paper is not None:
            return record.paper
    raise LookupError(model)


def _rest(results: Results, model: str, *without: str) -> str:
    left = _count(results, model, "total", FEWEST)
    left -= sum(_count(results, model, part, FEWEST) for part in without)
    return _millions(left)


def _factor(results: Results) -> str:
    ratio = _published(results, "te", FEWEST) / _published(results, "lama-ctx", FEWEST)
    return f"{ratio:.1f}"


def _gap(results: Results) -> str:
    return _millions(_published(results, "te", FEWEST) - _published(results, "lama-ctx", FEWEST))


def _embedding_gap(results: Results) -> str:
    ngrams, thin = (_count(results, model, "embedding", FEWEST) for model in ("te", "lama-ctx"))
    return _millions(ngrams - thin)


def _a_head(count: Callable[[int], float]) -> str:
    return f"{(count(MOST) - count(FEWEST)) / (MOST - FEWEST):,.0f}"


def _smaller(results: Results, *, large: bool) -> str:
    """For which numbers of heads LAMA+ctx has fewer parameters than TE."""
    fewer = [
        heads
        for heads in PARAMETER_HEADS
        if _count(results, "lama-ctx", "total", heads, large=large)
        < _count(results, "te", "total", heads, large=large)
    ]
    if len(fewer) == len(PARAMETER_HEADS):
        return "every m of the table"
    return f"m up to {max(fewer)}" if fewer else "no m of the table"


def _millions(value: float) -> str:
    return f"{value / 1e6:.2f} M"


def _projection(results: Results) -> str:
    """The part of the layer's operations that uₜ takes."""
    found = {
        record.model: record.number
        for record in results.of("complexity")
        if record.metric == "operations"
        and {**record.config, "grows": "n"} == {**USUAL, "grows": "n"}
    }
    return f"{1 - found['LAMA, scores of h'] / found['LAMA, scores of u']:.0%}".replace("%", " %")


def _seconds(results: Results) -> dict[tuple[str, str, int], float]:
    return {
        (r.dataset, r.model, int(str(r.config["text.max_words"]))): float(np.mean(r.value))  # type: ignore[arg-type]
        for r in results.of("runtime")
    }


def _slower(results: Results) -> str:
    """How many times as long as LE an epoch of TE takes."""
    times = _seconds(results)
    ratios = [
        value / times[dataset, "lama-encoder", words]
        for (dataset, model, words), value in times.items()
        if model == "te"
    ]
    return f"{min(ratios):.1f} to {max(ratios):.1f}" if ratios else NONE


def _longer(results: Results, model: str) -> str:
    """How many times as long as the shortest texts the longest take, by set."""
    times = _seconds(results)
    return " and ".join(
        f"{times[name, model, LENGTHS[-1]] / times[name, model, LENGTHS[0]]:.2f}"
        for name in ("r8", "imdb")
    )


_MEASURES: dict[str, Callable[[Results], str]] = {
    "factor": _factor,
    "gap": _gap,
    "embedding gap": _embedding_gap,
    "te embedding": lambda r: _millions(_count(r, "te", "embedding", FEWEST)),
    "lama embedding": lambda r: _millions(_count(r, "lama-ctx", "embedding", FEWEST)),
    "te rest": lambda r: _rest(r, "te", "embedding"),
    "lama rest": lambda r: _rest(r, "lama-ctx", "embedding"),
    "te core": lambda r: _rest(r, "te", "embedding", "classifier"),
    "lama core": lambda r: _rest(r, "lama-ctx", "embedding", "classifier"),
    "published a head": lambda r: _a_head(lambda m: _published(r, "lama-ctx", m)),
    "attention a head": lambda r: _a_head(lambda m: _count(r, "lama-ctx", "attention", m)),
    "classifier a head": lambda r: _a_head(lambda m: _count(r, "lama-ctx", "classifier", m)),
    "smaller": lambda r: _smaller(r, large=True),
    "smaller here": lambda r: _smaller(r, large=False),
    "projection": _projection,
    "slower": _slower,
    "le longer": lambda r: _longer(r, "lama-encoder"),
    "te longer": lambda r: _longer(r, "te"),
}
