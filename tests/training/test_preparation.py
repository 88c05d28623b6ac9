"""Preparation of a run: auto settings see the training texts, the vocabulary no others."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.splits import Split
from lamatext.recipes import load_recipe
from lamatext.training.preparation import prepare_run

TEXTS, WORDS = 600, 60


@pytest.mark.parametrize(("new", "enabled"), [(0, False), (1, False), (2, True)])
def test_character_ngrams_are_used_where_many_words_occur_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: int, enabled: bool
) -> None:
    """Of the 60 words of a text 0, 1 or 2 occur nowhere else; the threshold of 2 % is 1.2."""
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    texts = [
        " ".join([f"new{row}x{i}" for i in range(new)] + ["word"] * (WORDS - new))
        for row in range(TEXTS)
    ]
    column = pa.chunked_array([texts], pa.large_string())
    rows = np.arange(TEXTS)
    recipe = load_recipe("default").with_values({"text.word_vectors": "random"})

    prepared = prepare_run(column, Split(rows[:550], rows[550:]), recipe, classes=2)

    assert prepared.recipe.ngrams.characters is enabled


@pytest.mark.parametrize(
    "changed",
    [
        {"text.vector_width": 6},
        {"text.word2vec_epochs": 2},
        {"text.word2vec_window": 2},
        {"text.word2vec_skip_gram": False},
        {"seed": 1},
    ],
)
def test_cached_word_vectors_are_not_reused_for_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object]
) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    texts = pa.chunked_array([["a b c d", "b c d e", "c d e a"] * 10], pa.large_string())
    rows = np.arange(30)
    recipe = load_recipe("default").with_values({"text.word2vec_epochs": 1, "text.min_count": 1})

    for values in ({}, changed):
        prepare_run(texts, Split(rows, rows), recipe.with_values(values), classes=2)

    assert len(list(tmp_path.glob("word2vec-*"))) == 2
