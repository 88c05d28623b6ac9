"""Parity of the web page's JavaScript (in node) with Python, on texts with unusual characters."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save as serialize

from lamatext import Predictor
from lamatext.errors import ModelError
from lamatext.explain.contributions import Floats
from lamatext.saved.format import (
    CONFIG,
    TOKENIZER,
    VOCAB,
    WEIGHTS,
    checksum,
    load_config,
    ngrams_file,
)
from lamatext.saved.model_io import add_metrics
from lamatext.saved.quantization import Storage
from lamatext.settings import NgramSettings
from lamatext.views.formatting import summed
from lamatext.views.web_model import describe_model, model_summary
from tests.explain.unspaced_texts import fit_unspaced_ngrams, unspaced_reviews
from tests.serve.javascript import needs_node, run_javascript
from tests.serve.saved import random_ngram_model, save, save_overflowing, validation_facts
from tests.serve.unusual_texts import texts_without_spaces, unusual_texts

SCRIPT = """
const { Model } = await load("model.js");
const { fromBase64 } = await load("weights.js");
const ngrams = data.ngrams && fromBase64(data.ngrams);
const model = new Model(data.description, fromBase64(data.weights), ngrams);
const codePoints = (text, at) => Array.from(text.slice(0, at)).length;
const explanations = [];
for (const text of data.texts) {
  const explanation = await model.explain(text);
  explanation.spans = explanation.spans.map(span => span.map(at => codePoints(text, at)));
  explanation.predicted = await model.predict(text);
  explanations.push(explanation);
}
print(explanations);
"""
TEXTS = ["", " ", "\x00", "zzz qqq", "a good film", *unusual_texts(195, seed=1)]


def base64_of(file: Path | None) -> str | None:
    return None if file is None else base64.b64encode(file.read_bytes()).decode()


def in_javascript(folder: Path, texts: list[str], script: str = SCRIPT) -> Any:
    data = {
        "description": describe_model(folder),
        "weights": base64_of(folder / WEIGHTS),
        "ngrams": base64_of(ngrams_file(folder, load_config(folder))),
        "texts": texts,
    }
    return run_javascript(script, data)


def assert_close(javascript: Any, python: Floats, tolerance: float, name: str) -> None:
    values = np.array(javascript, np.float64).reshape(python.shape)
    np.testing.assert_allclose(values, python, atol=tolerance, err_msg=ascii(name))


def check_same(folder: Path, texts: list[str], tolerance: float) -> None:
    predictor = Predictor.load(folder)
    for text, actual in zip(texts, in_javascript(folder, texts), strict=True):
        expected = predictor.explain(text)
        assert [tuple(span) for span in actual["spans"]] == list(expected.spans), ascii(text)
        assert actual["method"] == expected.method
        assert actual["window"] == expected.window
        rows = ("probabilities", "contributions", "relative", "base", "weights", "pooled")
        for name in rows:
            python = getattr(expected, name)
            if python is None:
                assert actual[name] is None
                continue
            scale = 1 if name in ("probabilities", "weights", "pooled") else 10
            assert_close(actual[name], python, tolerance * scale, f"{name} of {text}")
        assert list(actual.get("parts", {})) == list(expected.parts or {})
        assert_close(actual["relativeBase"], expected.relative_base, tolerance * 10, text)
        for part, python in expected.relative_parts.items():
            assert_close(actual["relativeParts"][part], python, tolerance * 10, f"{part} of {text}")
        np.testing.assert_allclose(actual["predicted"], actual["probabilities"], atol=1e-6)


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
def test_every_light_system_gives_the_same_explanation_in_javascript(
    tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    folder = save(tmp_path / "model", name, **settings)

    check_same(folder, TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_every_storage_gives_the_same_explanation_in_javascript(
    tmp_path: Path, storage: Storage
) -> None:
    folder = save(tmp_path / "model", storage=storage)

    check_same(folder, TEXTS, 1e-5)


@needs_node
def test_attention_scores_that_are_nearly_zero_give_the_same_in_javascript(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    tensors = load_file(folder / WEIGHTS)
    tensors["embedding.weight"] *= np.float32(1e-30)
    rewrite(folder, WEIGHTS, serialize(tensors))

    check_same(folder, TEXTS[:20], 1e-5)


@needs_node
@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"]])
def test_wrong_labels_are_allowed_for_as_in_python(tmp_path: Path, labels: list[str]) -> None:
    facts: dict[str, object] = {"label_noise": 0.25}
    folder = save(tmp_path / "model", labels=labels, ngrams=True, facts=facts)

    check_same(folder, TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize(
    "text",
    [
        {"lowercase": False},
        {"rare_words": "drop"},
        {"rare_words": "drop", "max_words": 3},
        {"max_words": 4, "last_words": 2},
    ],
)
def test_rare_and_excess_words_are_dropped_as_in_python(
    tmp_path: Path, text: dict[str, object]
) -> None:
    check_same(save(tmp_path / "model", text=text), TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"]])
@pytest.mark.parametrize("name", ["lama-ctx", "avg"])
@pytest.mark.parametrize("rare", ["drop", "unknown"])
def test_ngrams_give_the_same_explanation_in_javascript(
    tmp_path: Path, name: str, labels: list[str], rare: str
) -> None:
    folder = save(tmp_path / "model", name, labels=labels, text={"rare_words": rare}, ngrams=True)

    check_same(folder, TEXTS, 1e-5)


@needs_node
@pytest.mark.parametrize("name", ["lama-ctx", "bigru"])
def test_ngrams_explain_alone_if_the_network_has_weight_0_as_in_python(
    tmp_path: Path, name: str
) -> None:
    labels, facts = ["a", "b", "c"], validation_facts(0.5)
    ngrams = fit_unspaced_ngrams(classes=3)
    folder = save(
        tmp_path / "model", name, labels=labels, ngrams=ngrams, facts=facts, network_weight=0
    )
    texts = [*TEXTS[:20], *unspaced_reviews()[:5]]

    check_same(folder, texts, 1e-5)

    script = SCRIPT.replace(
        "print(explanations)", "print([model.heads, model.parts, explanations])"
    )
    heads, parts, (explanation,) = in_javascript(folder, ["a good film"], script)
    assert (heads, parts, explanation["weights"]) == (0, [], None)
    score = Predictor.load(folder).assess(["a good film"]).outlier_scores[0]
    assert explanation["outlier_score"] == pytest.approx(score, abs=1e-3)


@needs_node
def test_a_range_power_divides_the_ngram_logits_as_in_python(tmp_path: Path) -> None:
    labels = ["a", "b", "c"]
    ngrams = replace(
        random_ngram_model(NgramSettings(characters=True), len(labels)), range_power=0.6
    )
    folder = save(tmp_path / "model", labels=labels, ngrams=ngrams)

    check_same(folder, TEXTS, 1e-5)


@needs_node
def test_characters_are_grouped_as_in_python(tmp_path: Path) -> None:
    texts = [*unspaced_reviews(), *texts_without_spaces(150, seed=2)]
    ngrams = fit_unspaced_ngrams(classes=3)
    folder = save(tmp_path / "model", labels=["a", "b", "c"], ngrams=ngrams)

    check_same(folder, texts, 1e-5)


@needs_node
@pytest.mark.parametrize("ngrams", [True, False])
def test_the_sums_are_described_in_the_same_words_as_in_python(
    tmp_path: Path, ngrams: bool
) -> None:
    folder = save(tmp_path / "model", ngrams=ngrams)
    explanation = Predictor.load(folder).explain(TEXTS[4])
    script = f"""{SCRIPT.replace("print(explanations);", "")}
    const {{ describeSums }} = await load("display.js");
    print(model.labels.map(label => describeSums(explanations[0], "class:" + label)));
    """

    sums = in_javascript(folder, [TEXTS[4]], script)

    assert sums == [summed(explanation, c) for c in range(len(explanation.labels))]
    assert ("(n-grams " in sums[0]) == ngrams


@needs_node
def test_a_long_text_without_attention_is_explained_by_leaving_out_windows(tmp_path: Path) -> None:
    check_same(save(tmp_path / "model", "avg"), ["a good film , not dull ! " * 100], 1e-5)


def test_a_transformer_is_refused_with_advice(tmp_path: Path) -> None:
    folder = save(
        tmp_path / "model", "te", heads=2, transformer_positions=64, text={"max_words": 64}
    )

    with pytest.raises(ModelError, match=r"te is too large to run in a web page. Use `lamatext"):
        describe_model(folder)


@pytest.mark.parametrize("name", ["lama-blocks", "lama-phrases"])
def test_a_system_that_the_page_lacks_is_refused_with_advice(name: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", name)

    with pytest.raises(
        ModelError, match=rf"{name} does not run in a web page. Use `lamatext serve"
    ):
        describe_model(folder)


def test_a_model_with_spacys_tokenizer_is_refused_with_advice(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", text={"tokenizer": "spacy"})

    with pytest.raises(
        ModelError, match=r"tokenizer spacy does not run.*train with --set text.tokenizer=words"
    ):
        describe_model(folder)


def test_the_description_is_json(folder: Path) -> None:
    assert json.loads(json.dumps(describe_model(folder)))["labels"] == ["bad", "good", "<b>so</b>"]


@needs_node
def test_a_model_saved_in_format_1_gives_the_same_explanation_in_javascript() -> None:
    check_same(Path(__file__).parents[1] / "fixtures" / "format-1", TEXTS, 1e-5)


def test_a_summary_has_accuracy_date_and_examples(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    assert model_summary(folder)["examples"] == []

    example = {"text": "a film", "label": "good"}
    add_metrics(folder, {"test": {"accuracy": 0.9161, "texts": 1200}, "examples": [example]})
    config = json.loads((folder / CONFIG).read_text())
    config["saved"] = "2026-11-16T03:00:00Z"
    (folder / CONFIG).write_text(json.dumps(config))

    expected = "Labels 91.6 % of 1,200 test texts correctly · saved on 16 November 2026"
    assert model_summary(folder) == {
        "summary": expected,
        "examples": [example],
        "examples_from": "test",
    }


def test_the_examples_of_a_cross_validated_model_are_called_training_texts(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    add_metrics(folder, {"test": {"accuracy": 0.9, "texts": 40, "folds": 5}})

    assert model_summary(folder)["examples_from"] == "training"
    assert "90.0 % of 40 texts correctly (cross-validation)" in model_summary(folder)["summary"]


DAMAGED = """
const { Model } = await load("model.js");
const { fromBase64 } = await load("weights.js");
const names = [];
for (const weights of data.texts) {
  try {
    new Model(data.description, fromBase64(weights), data.ngrams && fromBase64(data.ngrams));
    names.push("accepted");
  } catch (error) {
    names.push(error.name);
  }
}
print(names);
"""


@needs_node
def test_damaged_tensors_are_a_named_error_in_javascript(tmp_path: Path) -> None:
    from safetensors.numpy import load_file
    from safetensors.numpy import save as to_bytes

    folder = save(tmp_path / "model")
    tensors = load_file(folder / WEIGHTS)
    bias = tensors["encoder.gru.bias_hh_l0"]
    changes: list[dict[str, Any]] = [
        {},
        {"encoder.gru.bias_hh_l0": bias[:3]},
        {"encoder.gru.bias_hh_l0": np.full_like(bias, np.nan)},
        {"encoder.gru.bias_hh_l0": np.full_like(bias, 1e30)},
        {"__proto__": bias},
    ]
    files = [to_bytes({**tensors, **change}) for change in changes]
    files += [to_bytes(tensors, {"note": "x"}), b"", files[0][:-1], b"\xff" * 8 + files[0][8:]]
    weights = [base64.b64encode(file).decode() for file in files]

    names = in_javascript(folder, weights, DAMAGED)

    assert names == ["accepted", *["ModelError"] * 4, "accepted", *["ModelError"] * 3]


OVERFLOWING = """
const { Model } = await load("model.js");
const { fromBase64 } = await load("weights.js");
const model = new Model(data.description, fromBase64(data.weights), null);
const errors = [];
for (const text of data.texts) {
  await model.predict(text).catch(error => errors.push(`${error.name}: ${error.message}`));
  await model.explain(text).catch(error => errors.push(`${error.name}: ${error.message}`));
}
print(errors);
"""


@needs_node
def test_results_that_overflow_are_a_named_error_in_javascript(tmp_path: Path) -> None:
    errors = in_javascript(save_overflowing(tmp_path / "model"), ["a good film"], OVERFLOWING)

    assert len(errors) == 2
    assert all("ModelError: The weights of this model are so large" in error for error in errors)


@needs_node
@pytest.mark.parametrize(("ngrams", "labels"), [(True, None), (False, None), (True, ["no", "yes"])])
def test_unsure_texts_and_outlier_scores_are_the_same_in_javascript(
    tmp_path: Path, ngrams: bool, labels: list[str] | None
) -> None:
    facts = validation_facts(threshold=0.6, classes=len(labels or "abc"))
    folder = save(tmp_path / "model", ngrams=ngrams, labels=labels, facts=facts)
    expected = Predictor.load(folder).assess_each(TEXTS)

    explanations = in_javascript(folder, TEXTS)

    for text, actual, python in zip(TEXTS, explanations, expected, strict=True):
        assert actual["unsure"] == python.is_unsure, ascii(text)
        assert actual["outlier_score"] == pytest.approx(python.outlier_score, abs=1e-4), ascii(text)
        assert actual["outlier"] == (actual["outlier_score"] >= 0.99)
    assert {one.is_unsure for one in expected} == {True, False}
    assert 0 < sum(actual["outlier"] for actual in explanations) < len(TEXTS)


@needs_node
def test_a_model_without_threshold_and_statistics_says_neither_in_javascript(
    tmp_path: Path,
) -> None:
    (explanation,) = in_javascript(save(tmp_path / "model"), ["a good film"])

    assert not {"unsure", "outlier", "outlier_score"} & explanation.keys()


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Replace a file of a saved model and its checksum."""
    (folder / name).write_bytes(content)
    config = json.loads((folder / CONFIG).read_text())
    config["files"][name] = checksum(folder / name)
    (folder / CONFIG).write_text(json.dumps(config))


def test_a_vocabulary_that_is_not_utf_8_is_a_named_error(tmp_path: Path) -> None:
    folder = save(tmp_path)
    rewrite(folder, VOCAB, b"<pad>\n<unk>\n\xff\n")

    with pytest.raises(ModelError, match=r"vocab\.txt cannot be read"):
        describe_model(folder)


def test_the_page_encodes_texts_as_the_tokenizer_file_says(tmp_path: Path) -> None:
    folder = save(tmp_path)
    settings = json.loads((folder / TOKENIZER).read_text())
    rewrite(folder, TOKENIZER, json.dumps({**settings, "max_words": 3}).encode())

    assert describe_model(folder)["text"]["max_words"] == 3
