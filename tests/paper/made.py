"""Tiny made-up sets under the names of real ones: two words decide the class."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIGNS = {
    "r8": {"ship": "tanker cargo", "money-fx": "dollar rate"},
    "clothing": {"1": "terrible poor", "5": "amazing happy"},
}
FILL = ["the", "a", "of", "in", "it", "was", "to", "and", "for", "on"]


def write_sets(folder: Path, *, train: int = 60, test: int = 24) -> None:
    """Both sets as ``$LAMATEXT_DATA`` holds them."""
    random = np.random.default_rng(0)
    for name, signs in SIGNS.items():
        for split, size in (("train", train), ("test", test)):
            labels = [list(signs)[row % len(signs)] for row in range(size)]
            texts = [
                " ".join([*random.choice(FILL, 6), *random.choice(signs[label].split(), 3)])
                for label in labels
            ]
            path = folder / name / f"{split}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"text": texts, "label": labels}), path)
