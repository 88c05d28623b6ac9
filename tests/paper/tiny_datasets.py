"""Tiny synthetic data sets under the names of real ones: two words decide the class."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CLASS_WORDS = {
    "r8": {"ship": "tanker cargo", "money-fx": "dollar rate"},
    "clothing": {"1": "terrible poor", "5": "amazing happy"},
}
FILLER = ["the", "a", "of", "in", "it", "was", "to", "and", "for", "on"]


def write_datasets(folder: Path, *, train: int = 60, test: int = 24) -> None:
    """Write both data sets in the layout of ``$LAMATEXT_DATA``."""
    random = np.random.default_rng(0)
    for name, words in CLASS_WORDS.items():
        for split, size in (("train", train), ("test", test)):
            labels = [list(words)[row % len(words)] for row in range(size)]
            texts = [
                " ".join([*random.choice(FILLER, 6), *random.choice(words[label].split(), 3)])
                for label in labels
            ]
            path = folder / name / f"{split}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"text": texts, "label": labels}), path)
