"""Sketches of training texts recognize these texts in other files."""

import base64

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.text_sketch import MAX_HASHES, TextSketch

WORDS = np.array([f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(400)])


def column(texts: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def draw(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(words) for words in generator.choice(WORDS, (count, 8))]


def test_all_texts_of_a_small_file_are_recognized_despite_case_and_punctuation() -> None:
    texts = draw(300, 0)
    sketch = TextSketch.of_texts(column([*texts, texts[0], ""]))

    others = [text.upper() + "!" for text in texts[:40]] + draw(60, 1) + [""]

    assert sketch.texts == 300
    assert sketch.recognize(column(others)) == (40, 101)


def test_the_share_of_training_texts_in_a_large_file_is_estimated() -> None:
    texts = draw(20_000, 0)
    sketch = TextSketch.of_texts(column(texts))

    hits, checked = sketch.recognize(column([*texts[:3000], *draw(7000, 1)]))

    assert len(sketch.hashes) == MAX_HASHES
    assert checked == pytest.approx(10_000 * MAX_HASHES / 20_000, rel=0.15)
    assert hits / checked == pytest.approx(0.3, abs=0.07)
    assert sketch.recognize(column(draw(7000, 1)))[0] == 0


def test_a_sketch_survives_json_and_is_small() -> None:
    sketch = TextSketch.of_texts(column(draw(5000, 0)))

    saved = sketch.as_json()

    assert len(str(saved)) < 6000
    again = TextSketch.from_json(saved)
    assert (again.hashes == sketch.hashes).all()
    assert again.texts == sketch.texts == 5000


def test_empty_texts_have_an_empty_sketch() -> None:
    sketch = TextSketch.from_json(TextSketch.of_texts(column(["", " "])).as_json())

    assert sketch.recognize(column(["", "a text"])) == (0, 2)


def test_texts_in_chunks_have_the_same_sketch() -> None:
    texts = draw(50, 0)
    chunks = pa.chunked_array([texts[:20], texts[20:]], pa.large_string())

    assert TextSketch.of_texts(chunks).as_json() == TextSketch.of_texts(column(texts)).as_json()


def encoded(*hashes: int) -> str:
    return base64.b64encode(np.array(hashes, "<u4").tobytes()).decode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"hashes": ""},
        {"hashes": "", "texts": 0, "more": 1},
        {"hashes": "", "texts": 1},
        {"hashes": "", "texts": False},
        {"hashes": encoded(1, 2), "texts": 2.0},
        {"hashes": encoded(2, 1), "texts": 2},
        {"hashes": encoded(1, 1), "texts": 2},
        {"hashes": encoded(1, 2), "texts": 1},
        {"hashes": encoded(1, 2), "texts": -2},
        {"hashes": encoded(*range(2000)), "texts": 2000},
        {"hashes": "AAA", "texts": 1},
        {"hashes": "AAAA", "texts": 1},
        {"hashes": "é===", "texts": 1},
        {"hashes": 3, "texts": 1},
    ],
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        TextSketch.from_json(value)
