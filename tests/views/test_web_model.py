"""The page's forward pass in node against Python's, on texts that nobody writes."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.errors import ModelError
from lamatext.explain.classifier_head import Floats
from lamatext.saved.format import WEIGHTS
from lamatext.saved.quantization import Storage
from lamatext.views.formatting import summed
from lamatext.views.web_model import describe
from tests.serve.node import needs_node, run
from tests.serve.odd import odd_texts
from tests.serve.saved import save

SCRIPT = """
const { Model } = await load("model.js");
const { fromBase64 } = await load("weights.js");
const ngrams = given.ngrams && fromBase64(given.ngrams);
const model = new Model(given.description, fromBase64(given.weights), ngrams);
const points = (text, at) => Array.from(text.slice(0, at)).length;
const answers = [];
for (const text of given.texts) {
  const found = await model.explain(text);
  found.spans = found.spans.map(span => span.map(at => points(text, at)));
  found.predicted = await model.predict(text);
  answers.push(found);
}
tell(answers);
"""
TEXTS = ["", " ", "\x00", "zzz qqq", "a good film", *odd_texts(195, seed=1)]


def encoded(file: Path) -> str | None:
    return base64.b64encode(file.read_bytes()).decode() if file.is_file() else None


def in_javascript(folder: Path, texts: list[str], script: str = SCRIPT) -> Any:
    given = {
        "description": describe(folder),
        "weights": encoded(folder / WEIGHTS),
        "ngrams": encoded(folder / "ngrams.safetensors"),
        "texts": texts,
    }
    return run(script, given)


def assert_close(ours: Any, theirs: Floats, tolerance: float, what: str) -> None:
    found = np.array(ours, np.float64).reshape(theirs.shape)
    np.testing.assert_allclose(found, theirs, atol=tolerance, err_msg=ascii(what))


def check_same(folder: Path, texts: list[str], tolerance: float) -> None:
    predictor = Predictor.load(folder)
    for text, found in zip(texts, in_javascript(folder, texts), strict=True):
        expected = predictor.explain(text)
        assert [tuple(span) for span in found["spans"]] == list(expected.spans), ascii(text)
        assert found["method"] == expected.method
        assert found["window"] == expected.window
        rows = ("probabilities", "contributions", "relative", "base", "weights", "pooled")
        for name in rows:
            theirs = getattr(expected, name)
            if theirs is None:
                assert found[name] is None
                continue
            scale = 1 if name in ("probabilities", "weights", "pooled") else 10
            assert_close(found[name], theirs, tolerance * scale, f"{name} of {text}")
        assert list(found.get("parts", {})) == list(expected.parts or {})
        assert_close(found["relativeBase"], expected.relative_base, tolerance * 10, text)
        for part, theirs in expected.relative_parts.items():
            assert_close(found["relativeParts"][part], theirs, tolerance * 10, f"{part} of {text}")
        np.testing.assert_allclose(found["predicted"], found["probabilities"], atol=1e-6)


@needs_node
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lama", {}),
        ("lama-ctx", {}),
        ("lama-ctx", {"rank": 3, "initial_temperature": 4.0}),
        ("lama-ctx", {"score_tanh": False, "score_l2": False, "score_input": "states"}),
        ("lama-ctx", {"classifier_width": 0}),
        ("lama-ctx-dp", {}),
        ("lama-ctx-de", {"heads": 1}),
        ("lama-encoder", {}),
        ("bilinear", {}),
        ("san", {}),
        ("bigru", {}),
        ("cnn", {}),
        ("avg", {}),
    ],
)
def test_every_light_system_says_the_same_in_the_page(
    tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    folder = save(tmp_path / "model", name, **settings)

    check_same(folder, TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_every_storage_is_read_as_python_reads_it(tmp_path: Path, storage: Storage) -> None:
    folder = save(tmp_path / "model", storage=storage)

    check_same(folder, TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize(
    "text",
    [
        {"lower": False},
        {"rare": "drop"},
        {"rare": "drop", "max_words": 3},
        {"max_words": 4, "tail": 2},
    ],
)
def test_words_are_left_out_as_in_python(tmp_path: Path, text: dict[str, object]) -> None:
    check_same(save(tmp_path / "model", text=text), TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"]])
@pytest.mark.parametrize("name", ["lama-ctx", "avg"])
@pytest.mark.parametrize("rare", ["drop", "unknown"])
def test_the_n_grams_beside_the_network_say_the_same(
    tmp_path: Path, name: str, labels: list[str], rare: str
) -> None:
    folder = save(tmp_path / "model", name, labels=labels, text={"rare": rare}, ngrams=True)

    check_same(folder, TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize("ngrams", [True, False])
def test_the_page_sums_up_in_pythons_words(tmp_path: Path, ngrams: bool) -> None:
    folder = save(tmp_path / "model", ngrams=ngrams)
    explanation = Predictor.load(folder).explain(TEXTS[4])
    script = f"""{SCRIPT.replace("tell(answers);", "")}
    const {{ sumsOf }} = await load("display.js");
    tell(model.labels.map(label => sumsOf(answers[0], "class:" + label)));
    """

    told = in_javascript(folder, [TEXTS[4]], script)

    assert told == [summed(explanation, c) for c in range(len(explanation.labels))]
    assert ("of this, n-grams " in told[0]) == ngrams


@needs_node
def test_a_long_text_without_attention_is_explained_by_windows(tmp_path: Path) -> None:
    check_same(save(tmp_path / "model", "avg"), ["a good film , not dull ! " * 100], 1e-5)


def test_a_transformer_is_refused_with_advice(tmp_path: Path) -> None:
    folder = save(
        tmp_path / "model", "te", heads=2, transformer_positions=64, text={"max_words": 64}
    )

    with pytest.raises(ModelError, match=r"te is too large to run in a page alone. Use `lamatext"):
        describe(folder)


def test_a_model_with_spacys_words_is_refused_with_advice(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", text={"tokenizer": "spacy"})

    with pytest.raises(ModelError, match=r"cut by spacy.*train with --set text.tokenizer=words"):
        describe(folder)


def test_the_description_is_json(folder: Path) -> None:
    assert json.loads(json.dumps(describe(folder)))["labels"] == ["bad", "good", "<b>so</b>"]
