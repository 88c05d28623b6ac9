import gzip
from pathlib import Path

import numpy as np
import pytest

from lamatext.data.token_ids import FIRST_WORD, PAD, TokenIds
from lamatext.data.vocabulary import Vocabulary
from lamatext.data.word_vectors import frequent_words, make_vectors, random_vectors, read_vectors
from lamatext.errors import ConfigError, DataError
from lamatext.progress import Progress
from lamatext.settings import TextSettings

VOCABULARY = Vocabulary(["good", "bad", "odd"])
NO_ROWS = TokenIds.from_lists([])


class Notes(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_random_vectors_depend_on_the_seed_and_padding_is_zero() -> None:
    vectors = random_vectors(50, 8, seed=3)

    np.testing.assert_array_equal(vectors, random_vectors(50, 8, seed=3))
    assert not np.array_equal(vectors, random_vectors(50, 8, seed=4))
    assert not vectors[PAD].any()
    assert vectors.dtype == np.float32
    assert vectors[1:].std() == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("header", ["", "2 2\n"])
@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_a_vector_file_is_read_and_its_coverage_reported(
    tmp_path: Path, header: str, suffix: str
) -> None:
    path = tmp_path / f"glove{suffix}"
    content = f"{header}good 1 2\nelse 3 4\nbad -5 .5\n".encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    notes, settings = Notes(), TextSettings(word_vectors=str(path), vector_width=2)

    vectors = make_vectors(settings, VOCABULARY, NO_ROWS, seed=0, progress=notes)

    np.testing.assert_array_equal(vectors[FIRST_WORD : FIRST_WORD + 2], [[1, 2], [-5, 0.5]])
    assert notes.notes == [f"{path}: vectors for 2 of 3 words"]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"good 1 2 3\n", ConfigError, r":1: the vectors have 3 numbers, text\.vector_width is 2"),
        (b"else 1 2\ngood 1 x\n", DataError, ":2: expected a word and 2 numbers"),
        (b"else 1 2\ngood 1 nan\n", DataError, ":2: expected numbers of at most 100,000"),
        (b"good -inf 1\n", DataError, ":1: expected numbers of at most 100,000"),
        (b"good 1 1e6\n", DataError, ":1: expected numbers of at most 100,000"),
        pytest.param(b"\xff\xfe\x00", DataError, "control characters, so binary"),
    ],
)
def test_an_error_in_a_vector_file_names_the_line(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)

    with pytest.raises(error, match=message):
        read_vectors(path, VOCABULARY, 2, seed=0)


def test_entries_of_several_words_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("good 1 2\ngood . . 3 4\ngood at home@example.com 5 6\n", encoding="utf-8")

    vectors, matched = read_vectors(path, VOCABULARY, 2, seed=0)

    assert matched == 1
    assert vectors[VOCABULARY.ids["good"]].tolist() == [1, 2]


def test_a_missing_vector_file_is_reported_with_the_alternatives(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file\. Use word2vec, svd, random"):
        read_vectors(tmp_path / "none.txt", VOCABULARY, 2, seed=0)


def test_word2vec_depends_on_the_seed_and_has_a_vector_for_every_word() -> None:
    pytest.importorskip("gensim")
    rows = TokenIds.from_lists([[2, 3, 2, 3], [3, 2, 2]] * 20)
    settings = TextSettings(word_vectors="word2vec", vector_width=4, word2vec_epochs=2)

    first = make_vectors(settings, VOCABULARY, rows, seed=1)

    np.testing.assert_array_equal(first, make_vectors(settings, VOCABULARY, rows, seed=1))
    assert not np.array_equal(first, make_vectors(settings, VOCABULARY, rows, seed=2))
    np.testing.assert_array_equal(first[4], random_vectors(5, 4, seed=1)[4])  # "odd": never met
    assert not np.array_equal(first[2], random_vectors(5, 4, seed=1)[2])
    assert not first[PAD].any()


def test_tabs_may_separate_and_lines_that_are_not_utf8_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"good\t1\t2\ncaf\xe9 3 4\nfilm 5 6\n")
    vocabulary = Vocabulary(["good", "film"])

    vectors, matched = read_vectors(path, vocabulary, 2, 0)

    assert matched == 2
    assert vectors[vocabulary.ids["good"]].tolist() == [1, 2]
    assert frequent_words(path, 9) == ["good", "film"]
