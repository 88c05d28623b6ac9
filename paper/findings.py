"""What the accuracies show, as parts of sentences: each is computed from the records."""

from collections.abc import Callable, Sequence

import numpy as np

from paper.accuracy_tables import best_on_validation
from paper.instead import NAMES as BASELINE_NAMES
from paper.intervals import changed_scores, difference, scores, sure, than
from paper.protocol import (
    ABLATED_ON,
    ABLATIONS,
    CHOSEN_ON,
    HEADS,
    TRAINED,
    USUAL_HEADS,
    fold_scores,
)
from paper.published import DATASETS, SYSTEMS
from paper.published import accuracy as published
from paper.records import Record, Results
from paper.tables import NONE, heading, markdown, share, title

ALIKE = tuple(name for name, (paper, other) in DATASETS.items() if paper and not other)
NEAR = 1.0  # point of accuracy
BASELINES = ("san", "bigru", "cnn", "te", "avg")
ONE_HEAD = ("one head", "one head without l2")


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    if not names:
        return "none"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def mean(records: Sequence[Record]) -> float | None:
    """Over the seeds."""
    return float(np.mean([record.number for record in records])) if records else None


def against_paper(results: Results) -> str:
    """Which systems are near the published figures, above and below, as a list."""

    def gap(dataset: str, model: str) -> float | None:
        ours, paper = best_on_validation(results, dataset, model), published(model, dataset)
        return None if ours is None or paper is None else round(100 * (ours - paper), 1)

    def group(says: Callable[[float], bool]) -> str:
        parts = []
        for dataset in ALIKE:
            gaps = {model: gap(dataset, model) for model in TRAINED}
            named = [f"{title(m)} ({g:+.1f})" for m, g in gaps.items() if g is not None and says(g)]
            parts.append(f"on {dataset} {listed(named)}")
        return "; ".join(parts)

    return "\n".join(
        [
            f"- within a point of it: {group(lambda points: abs(points) <= NEAR)};",
            f"- more than a point above it: {group(lambda points: points > NEAR)};",
            f"- more than a point below it: {group(lambda points: points < -NEAR)}.",
        ]
    )


def told(results: Results, model: str) -> str:
    """On which sets LAMA+ctx is surely better or worse than another system."""
    found = {dataset: than(results, dataset, model) for dataset in DATASETS}
    says = {1: "better on", -1: "worse on", 0: "not told apart on"}
    groups = []
    for sign, words in says.items():
        names = [name for name, between in found.items() if between and sure(between) == sign]
        if names:
            groups.append(f"{words} {'all sets' if len(names) == len(DATASETS) else listed(names)}")
    return ", ".join(groups) or NONE


def above(results: Results, one: str, other: str) -> str:
    """On which sets the mean of one system is above that of another."""
    pairs = {name: (_mean(results, name, one), _mean(results, name, other)) for name in DATASETS}
    here = [name for name, (a, b) in pairs.items() if a is not None and b is not None and a > b]
    known = [name for name, values in pairs.items() if None not in values]
    return "every set" if here == known else listed(here)


def margin(results: Results, dataset: str) -> str:
    """LAMA+ctx less the mean of the paper's five baselines, ours and as published."""
    ours = [best_on_validation(results, dataset, model) for model in ("lama-ctx", *BASELINES)]
    paper = [published(model, dataset) for model in ("lama-ctx", *BASELINES)]
    return f"{_ahead(ours)} (published {_ahead(paper)})"


def _ahead(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return NONE
    return f"{100 * (known[0] - float(np.mean(known[1:]))):.1f}"


def published_above(model: str) -> str:
    """On how many of the paper's sets its LAMA+ctx is above another system."""
    columns = [name for name, (paper, _) in DATASETS.items() if paper]
    pairs = [(published("lama-ctx", name), published(model, name)) for name in columns]
    known = [(ours, theirs) for ours, theirs in pairs if ours and theirs]
    return f"published: above on {sum(a > b for a, b in known)} of {len(known)}"


def at_chance(results: Results, dataset: str) -> str:
    """The systems whose mean is within a point of guessing."""
    classes = [r for r in results.of("datasets") if (r.dataset, r.metric) == (dataset, "classes")]
    means = {model: _mean(results, dataset, model) for model in TRAINED}
    if not classes:
        return NONE
    most = 1 / classes[0].number + NEAR / 100
    named = [model for model, value in means.items() if value is not None and value < most]
    return listed([f"{title(model)} ({share(means[model])})" for model in named])


def linear_above(results: Results) -> str:
    """The sets on which a linear model is above every system of the paper's protocol."""
    found = []
    for dataset in DATASETS:
        linear, trained = (
            [value for model in models if (value := _mean(results, dataset, model)) is not None]
            for models in (BASELINE_NAMES, TRAINED)
        )
        if linear and trained and max(linear) > max(trained):
            found.append(dataset)
    return listed(found)


def picks_table(results: Results) -> str:
    """The best of the paper's systems, of the linear ones, and the fine-tuned MiniLM."""

    def best(dataset: str, models: Sequence[str]) -> str:
        means = {model: _mean(results, dataset, model) for model in models}
        known = {model: value for model, value in means.items() if value is not None}
        if not known:
            return NONE
        first = max(known, key=lambda model: known[model])
        return f"{share(known[first])} {SYSTEMS.get(first) or title(first)}"

    rows = [
        ["by the paper's protocol", *(best(name, TRAINED) for name in DATASETS)],
        ["TF-IDF or fastText", *(best(name, BASELINE_NAMES) for name in DATASETS)],
        [title("bert"), *(share(_mean(results, name, "bert")) for name in DATASETS)],
    ]
    return markdown(("the best", *map(heading, DATASETS)), rows)


def moved(results: Results, dataset: str) -> str:
    """The changes at 15 heads whose paired interval does not hold zero, with their points."""
    named = []
    usual, *others = ABLATIONS
    base = changed_scores(results, dataset, usual)
    for name in others:
        mine = changed_scores(results, dataset, name)
        if name not in ONE_HEAD and sure(difference(results, mine, base)):
            named.append(f"{name} ({shift(results, dataset, name)})")
    return listed(named)


def shift(results: Results, dataset: str, name: str) -> str:
    """Points that a change adds to the mean."""
    usual, *_ = ABLATIONS
    mine, base = (mean(changed_scores(results, dataset, each)) for each in (name, usual))
    return NONE if mine is None or base is None else f"{100 * (mine - base):+.1f}"


def steady(results: Results) -> str:
    """The changes that lower every seed of every ablated set, or raise each of them."""
    usual, *others = ABLATIONS
    found = []
    for name in others:
        gaps = [gap for dataset in ABLATED_ON for gap in _by_seed(results, dataset, name, usual)]
        if gaps and (max(gaps) < 0 or min(gaps) > 0):
            found.append(f"{name} ({'down' if gaps[0] < 0 else 'up'})")
    return listed(found)


def _by_seed(results: Results, dataset: str, name: str, usual: str) -> list[float]:
    base = {r.seed: r.number for r in changed_scores(results, dataset, usual)}
    return [
        r.number - base[r.seed] for r in changed_scores(results, dataset, name) if r.seed in base
    ]


def fold_means(results: Results, dataset: str, model: str) -> list[float]:
    """The mean over the folds by the number of heads; empty until all are there."""
    records = results.of("heads")
    found = [fold_scores(records, dataset, model, heads) for heads in HEADS]
    return [float(np.mean(values)) for values in found] if all(found) else []


def worst_with_one(results: Results, model: str) -> str:
    """The sets on which one head is the worst number of heads."""
    means = {name: fold_means(results, name, model) for name in CHOSEN_ON}
    return listed([name for name, values in means.items() if values and min(values) == values[0]])


def falls(results: Results, model: str) -> str:
    """The sets on which every further number of heads is worse than the one before."""
    means = {name: fold_means(results, name, model) for name in CHOSEN_ON}
    return listed([n for n, v in means.items() if v and v == sorted(v, reverse=True)])


def range_of_many(results: Results, model: str) -> str:
    """Points between the best and the worst number of heads above one, on the set with most."""
    means = [fold_means(results, name, model)[1:] for name in CHOSEN_ON]
    gaps = [max(values) - min(values) for values in means if values]
    return f"{100 * max(gaps):.1f}" if gaps else NONE


def repeats(results: Results) -> str:
    """Whether runs that two experiments made with the same seed, settings and code agree."""
    seen: dict[str, list[float]] = {}
    for experiment in ("accuracy", "ablation", "keywords"):
        for record in results.of(experiment):
            if record.metric == "accuracy" and record.model == "lama-ctx":
                settings = {"model.heads": USUAL_HEADS, **record.changed}
                key = f"{record.dataset} {record.seed} {record.commit} {sorted(settings.items())}"
                seen.setdefault(key, []).append(record.number)
    gaps = [max(values) - min(values) for values in seen.values() if len(values) > 1]
    if not gaps:
        return "No run was made twice."
    most = max(gaps)
    agree = "agree exactly" if most == 0 else f"differ by {100 * most:.1f} points at most"
    return f"{len(gaps)} runs were made in two experiments, at one seed and commit: they {agree}."


def _mean(results: Results, dataset: str, model: str) -> float | None:
    return mean(scores(results, dataset, model))
