"""What the rules are told of the training texts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.progress import SILENT
from lamatext.recipes import load_recipe
from lamatext.training.preparation import Split, prepare_words

TEXTS, WORDS = 600, 60


@pytest.mark.parametrize(("new", "read"), [(0, False), (1, False), (2, True)])
def test_characters_are_read_where_words_stand_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: int, read: bool
) -> None:
    """Of the 60 words of a text 0, 1 or 2 stand nowhere else: 2 % are 1.2 of them."""
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    texts = [
        " ".join([f"new{row}x{i}" for i in range(new)] + ["word"] * (WORDS - new))
        for row in range(TEXTS)
    ]
    column = pa.chunked_array([texts], pa.large_string())
    rows = np.arange(TEXTS)
    split = Split(column, rows % 2, rows[:550], rows[550:])
    recipe = load_recipe("default").with_values({"text.word_vectors": "random"})

    ready = prepare_words(split, recipe, 2, SILENT)

    assert ready.recipe.ngrams.characters is read
