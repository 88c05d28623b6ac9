"""Paired bootstrap confidence intervals over test texts and seeds, from stored correctness.

For each trained system one bit per test text says whether its prediction was correct; the bits are
stored next to the records (``records/predictions/DATASET.json``).
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lamatext.atomic_write import write_text
from paper.datasets import count_test_texts
from paper.markdown import MISSING
from paper.records import Record, Records

Correctness = NDArray[np.bool_]  # (n,) or (seeds, n)
Interval = tuple[float, float]


def pack_bits(correct: Correctness) -> str:
    """Pack the correctness of n predictions into base64, eight texts per byte."""
    return b64encode(np.packbits(correct).tobytes()).decode()


def unpack_bits(packed: str, texts: int) -> Correctness:
    """Return the correctness that ``pack_bits`` packed."""
    return np.unpackbits(np.frombuffer(b64decode(packed), np.uint8))[:texts].astype(bool)


def prediction_name(
    experiment: str,
    model: str,
    seed: int | None,
    settings: Mapping[str, object],
    fold: int | None = None,
) -> str:
    """Return the name under which the correctness of a trained system is stored."""
    changed = ",".join(f"{key}={value}" for key, value in settings.items())
    parts = (experiment, model, seed, "" if fold is None else f"fold={fold}", changed)
    return " ".join(str(part) for part in parts if part not in ("", None))


def store_correctness(folder: Path, dataset: str, name: str, packed: str) -> None:
    """Add one system's packed correctness to ``predictions/DATASET.json``."""
    stored = {**read_correctness(folder, dataset), name: packed}
    path = folder / "predictions" / f"{dataset}.json"
    write_text(path, json.dumps(stored, indent=0, sort_keys=True) + "\n")


def read_correctness(folder: Path, dataset: str) -> dict[str, str]:
    """Read the packed correctness of all systems on a data set, by prediction name."""
    path = folder / "predictions" / f"{dataset}.json"
    stored: dict[str, str] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return stored


def paired_interval(ours: Correctness, theirs: Correctness, *, draws: int = 2_000) -> Interval:
    """Return the 95 % bootstrap interval of our mean accuracy minus theirs.

    Each draw resamples with replacement the test texts, which both systems share, and the seeds of
    each system. ``ours`` and ``theirs`` are (seeds, n).
    """
    generator, texts = np.random.default_rng(0), ours.shape[1]
    both = np.concatenate([ours, theirs])  # (all seeds, n)
    patterns, counts = np.unique(both, axis=1, return_counts=True)  # few: draw their counts
    resampled = generator.multinomial(texts, counts / texts, size=draws)  # (draws, patterns)
    accuracies = resampled @ patterns.T.astype(np.float64) / texts  # (draws, all seeds)
    one, other = (
        _resample_seeds(part, generator) for part in np.split(accuracies, [len(ours)], axis=1)
    )
    low, high = np.quantile(one - other, [0.025, 0.975])
    return float(low), float(high)


def _resample_seeds(
    accuracies: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return for each bootstrap draw the mean over seeds drawn with replacement: (draws,)."""
    draws, seeds = accuracies.shape
    chosen = generator.integers(0, seeds, (draws, seeds))
    means: NDArray[np.float64] = np.take_along_axis(accuracies, chosen, axis=1).mean(axis=1)
    return means


def interval_between(
    records: Records, ours: Sequence[Record], theirs: Sequence[Record]
) -> Interval | None:
    """Return the paired interval between two systems' records; None if predictions are missing."""
    one, other = _stacked(records, ours), _stacked(records, theirs)
    return None if one is None or other is None else paired_interval(one, other)


def _stacked(records: Records, system: Sequence[Record]) -> Correctness | None:
    """Stack one system's stored correctness over seeds: (seeds, n)."""
    if not system:
        return None
    dataset = system[0].dataset
    stored, texts = read_correctness(records.folder, dataset), count_test_texts(records, dataset)
    names = [prediction_name(r.experiment, r.model, r.seed, r.config, r.fold) for r in system]
    packed = [stored[name] for name in names if name in stored]
    if not packed or texts is None:
        return None
    return np.stack([unpack_bits(bits, texts) for bits in packed])


def interval_sign(interval: Interval | None) -> int:
    """Return 1 if the interval is above zero, -1 if it is below, 0 if it contains zero."""
    if interval is None:
        return 0
    low, high = interval
    return int(low > 0) - int(high < 0)


def format_interval(interval: Interval | None, *, scale: float = 100, digits: int = 1) -> str:
    """Format an interval in points of accuracy, bold if it does not contain zero."""
    if interval is None:
        return MISSING
    low, high = (f"{scale * bound:+.{digits}f}" for bound in interval)
    mark = "**" if interval_sign(interval) else ""
    return f"{mark}{low} to {high}{mark}"
