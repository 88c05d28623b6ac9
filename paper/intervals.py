"""Whether one system is better than another: paired intervals from the hits beside the records."""

from collections.abc import Sequence

import numpy as np

from paper.predictions import Hits, hits_name, paired_interval, read_hits, unpacked
from paper.protocol import ABLATIONS
from paper.records import Record, Results
from paper.tables import NONE

Interval = tuple[float, float]


def scores(results: Results, dataset: str, model: str) -> list[Record]:
    """The test accuracies of a system, one a seed."""
    return [
        record
        for record in results.of("accuracy")
        if (record.dataset, record.model, record.metric) == (dataset, model, "accuracy")
    ]


def changed_scores(results: Results, dataset: str, name: str) -> list[Record]:
    """The test accuracies of LAMA+ctx with one choice changed, one a seed."""
    return [
        record
        for record in results.of("ablation")
        if (record.dataset, record.metric) == (dataset, "accuracy")
        and record.changed == dict(ABLATIONS[name])
    ]


def difference(
    results: Results, ours: Sequence[Record], theirs: Sequence[Record]
) -> Interval | None:
    """The middle 95 % of ours less theirs over the test texts; None where hits are missing."""
    one, other = _hits(results, ours), _hits(results, theirs)
    return None if one is None or other is None else paired_interval(one, other)


def sure(interval: Interval | None) -> int:
    """1 where ours is better, -1 where it is worse, 0 where the interval holds zero."""
    if interval is None:
        return 0
    low, high = interval
    return int(low > 0) - int(high < 0)


def in_points(interval: Interval | None) -> str:
    """As a cell of a table: bold where it does not hold zero."""
    if interval is None:
        return NONE
    low, high = interval
    mark = "**" if sure(interval) else ""
    return f"{mark}{100 * low:+.1f} to {100 * high:+.1f}{mark}"


def than(results: Results, dataset: str, model: str) -> Interval | None:
    """LAMA+ctx less another system."""
    return difference(
        results, scores(results, dataset, "lama-ctx"), scores(results, dataset, model)
    )


def _hits(results: Results, records: Sequence[Record]) -> Hits | None:
    """(seeds, n) of a system's records."""
    if not records:
        return None
    dataset = records[0].dataset
    kept = read_hits(results.folder, dataset)
    sizes = [r for r in results.of("datasets") if (r.dataset, r.metric) == (dataset, "test")]
    names = [hits_name(r.experiment, r.model, r.seed, dict(r.config)) for r in records]
    found = [kept[name] for name in names if name in kept]
    if not found or not sizes:
        return None
    return np.stack([unpacked(text, int(sizes[0].number)) for text in found])
