"""Which test texts a system got right: a bit each, kept beside the records for paired intervals."""

import json
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lamatext.atomic_write import write_text

Hits = NDArray[np.bool_]


def packed(right: Hits) -> str:
    """Eight texts a byte, in base64."""
    return b64encode(np.packbits(right).tobytes()).decode()


def unpacked(text: str, texts: int) -> Hits:
    """What ``packed`` was given."""
    return np.unpackbits(np.frombuffer(b64decode(text), np.uint8))[:texts].astype(bool)


def hits_name(experiment: str, model: str, seed: int | None, values: dict[str, object]) -> str:
    """Under which the hits of a trained system are kept."""
    changed = ",".join(f"{key}={value}" for key, value in values.items())
    return " ".join(
        str(part) for part in (experiment, model, seed, changed) if part not in ("", None)
    )


def keep_hits(folder: Path, dataset: str, name: str, correct: str) -> None:
    """Add the hits of one system."""
    path = _path(folder, dataset)
    kept = {**read_hits(folder, dataset), name: correct}
    write_text(path, json.dumps(kept, indent=0, sort_keys=True) + "\n")


def read_hits(folder: Path, dataset: str) -> dict[str, str]:
    """All hits of a data set by the name of the system."""
    path = _path(folder, dataset)
    found: dict[str, str] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def paired_interval(ours: Hits, theirs: Hits, *, draws: int = 2_000) -> tuple[float, float]:
    """The middle 95 % of ours less theirs, over test texts drawn again and again.

    ``ours`` and ``theirs`` are (seeds, n); a text's part is the mean over the seeds of each.
    """
    gain = ours.mean(axis=0) - theirs.mean(axis=0)  # (n,)
    values, counts = np.unique(gain, return_counts=True)  # a draw is how often each comes up
    drawn = np.random.default_rng(0).multinomial(len(gain), counts / len(gain), size=draws)
    means = drawn @ values / len(gain)  # (draws,)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _path(folder: Path, dataset: str) -> Path:
    return folder / "predictions" / f"{dataset}.json"
