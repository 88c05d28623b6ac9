"""The ONNX file of a whole model equals Predictor, with inputs from Python and from JavaScript."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamatext.data.text_encoder import TextEncoder
from lamatext.errors import ModelError
from lamatext.label_thresholds import LabelThresholds
from lamatext.runtime.model_export import ONNX_TOLERANCE, export_onnx, onnx_inputs
from lamatext.runtime.onnx_engine import open_session
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, model_hash
from lamatext.saved.model_io import load_model, save_model
from lamatext.settings import NgramSettings
from tests.serve.javascript import needs_node, run_javascript
from tests.serve.saved import random_ngram_model, save

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format-1"
TEXTS = [
    "",
    "a good film",
    "good good good, and not bad! it's a wonderful mess",
    "unknown wrods onyl",
    "東京 好! 😀 café naïve",
    "the film " * 60,
]


def metadata_of(session: Any) -> dict[str, Any]:
    stored = session.get_modelmeta().custom_metadata_map
    return {key: json.loads(value) for key, value in stored.items()}


def run(file: Path, predictor: Predictor, texts: list[str]) -> dict[str, Any]:
    session = open_session(file.read_bytes())
    assert isinstance(predictor.encoder, TextEncoder)
    inputs = onnx_inputs(predictor.encoder, predictor.ngrams, texts)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("labels", [["bad", "good"], ["a", "b", "c"]])
@pytest.mark.parametrize("name", ["lama-ctx", "bigru", "cnn", "avg", "san"])
def test_the_file_equals_the_predictor(name: str, labels: list[str], tmp_path: Path) -> None:
    folder = save(tmp_path / "model", name, labels=labels, ngrams=True)
    predictor = Predictor.load(folder)

    written = export_onnx(folder, tmp_path / "model.onnx")
    outputs = run(tmp_path / "model.onnx", predictor, TEXTS)

    assert written.difference <= ONNX_TOLERANCE
    np.testing.assert_allclose(
        outputs["probabilities"], predictor.predict_proba(TEXTS), rtol=0, atol=1e-5
    )
    np.testing.assert_allclose(outputs["logits"], predictor.logits(TEXTS), rtol=1e-5, atol=1e-5)
    assert ("weights" in outputs) == (name in ("lama-ctx", "san"))


def test_the_file_divides_the_ngram_logits_by_their_range(tmp_path: Path) -> None:
    ngrams = replace(random_ngram_model(NgramSettings(characters=True), 3), range_power=0.6)
    folder = save(tmp_path / "model", labels=["a", "b", "c"], ngrams=ngrams)
    predictor = Predictor.load(folder)

    export_onnx(folder, tmp_path / "model.onnx")
    outputs = run(tmp_path / "model.onnx", predictor, TEXTS)

    np.testing.assert_allclose(outputs["logits"], predictor.logits(TEXTS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [0, 9])
def test_the_file_allows_for_wrong_labels(width: int, tmp_path: Path) -> None:
    facts: dict[str, object] = {"label_noise": 0.25}
    folder = save(tmp_path / "model", ngrams=True, facts=facts, classifier_width=width)
    predictor = Predictor.load(folder)

    export_onnx(folder, tmp_path / "model.onnx")
    outputs = run(tmp_path / "model.onnx", predictor, TEXTS)

    expected = predictor.predict_proba(TEXTS)
    assert expected.max() < 0.75
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)


def test_the_ngrams_have_an_effect(tmp_path: Path) -> None:
    with_ngrams = save(tmp_path / "with", ngrams=True)
    export_onnx(with_ngrams, tmp_path / "model.onnx")
    predictor = Predictor.load(with_ngrams)
    session = open_session((tmp_path / "model.onnx").read_bytes())
    assert isinstance(predictor.encoder, TextEncoder)
    inputs = onnx_inputs(predictor.encoder, predictor.ngrams, TEXTS)
    nothing = {k: v[:0] if k.startswith("ngram_") else v for k, v in inputs.items()}

    full, network_only = (session.run(["logits"], given)[0] for given in (inputs, nothing))

    assert np.abs(full - network_only).max() > 0.1


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_quantized_weights_are_those_of_the_saved_model(storage: Any, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", ngrams=True, storage=storage)

    written = export_onnx(folder, tmp_path / "model.onnx")

    assert written.difference <= ONNX_TOLERANCE


def test_each_label_of_a_multi_label_model_has_its_own_probability(tmp_path: Path) -> None:
    single = load_model(save(tmp_path / "single", ngrams=True))
    thresholds = LabelThresholds(np.array([0.5, 0.25, 0.5], np.float32))
    folder = save_model(tmp_path / "model", replace(single, thresholds=thresholds))

    written = export_onnx(folder, tmp_path / "model.onnx")
    outputs = run(tmp_path / "model.onnx", Predictor.load(folder), TEXTS)

    assert written.difference <= ONNX_TOLERANCE
    np.testing.assert_allclose(
        outputs["probabilities"], 1 / (1 + np.exp(-outputs["logits"])), atol=1e-6
    )
    metadata = metadata_of(open_session((tmp_path / "model.onnx").read_bytes()))
    assert metadata["thresholds"] == [0.5, 0.25, 0.5]


def test_a_model_of_format_1_can_be_exported(tmp_path: Path) -> None:
    assert export_onnx(FORMAT_1, tmp_path / "model.onnx").difference <= ONNX_TOLERANCE


def test_the_metadata_describes_the_model(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", ngrams=True)
    export_onnx(folder, tmp_path / "model.onnx")

    metadata = metadata_of(open_session((tmp_path / "model.onnx").read_bytes()))

    config = load_config(folder)
    assert metadata["labels"] == config["labels"]
    assert metadata["vocabulary"][:3] == ["<pad>", "<unk>", "film"]
    assert metadata["tokenizer"]["lowercase"] is True
    assert metadata["ngrams"] == [
        {"words": 3, "characters": None},
        {"words": 0, "characters": [2, 5]},
    ]
    assert metadata["model_hash"] == model_hash(folder, config)


def test_the_file_is_valid_onnx_with_standard_operators_only(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    export_onnx(save(tmp_path / "model", ngrams=True), tmp_path / "model.onnx")

    model = onnx.load(tmp_path / "model.onnx")

    onnx.checker.check_model(model, full_check=True)
    assert {domain.domain for domain in model.opset_import} == {""}
    assert {node.domain for node in model.graph.node} == {""}


def test_a_file_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "model", ngrams=True)
    monkeypatch.setattr("lamatext.runtime.model_export.ONNX_TOLERANCE", -1.0)

    with pytest.raises(ModelError, match="a probability of the ONNX model differs by"):
        export_onnx(folder, tmp_path / "model.onnx")

    assert not (tmp_path / "model.onnx").exists()


def test_a_file_whose_probabilities_are_not_finite_is_not_written_with_any_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "model", ngrams=True)
    monkeypatch.setattr("lamatext.runtime.model_export._difference", lambda *_: float("nan"))

    with pytest.raises(ModelError, match="some probabilities of the ONNX model are not finite"):
        export_onnx(folder, tmp_path / "model.onnx", storage="int8")

    assert not (tmp_path / "model.onnx").exists()


SCRIPT = """
const { Encoder } = await load("tokens.js"), { countNgrams } = await load("ngrams.js");
const encoder = new Encoder(data.vocabulary, data.tokenizer);
print(data.texts.map(text => {
  const { ids, words } = encoder.encode(text);
  return { ids: Array.from(ids), ngrams: data.ngrams.map(spec => [...countNgrams(words, spec)]) };
}));
"""


@needs_node
def test_javascript_computes_the_inputs_without_python(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", ngrams=True)
    export_onnx(folder, tmp_path / "model.onnx")
    session = open_session((tmp_path / "model.onnx").read_bytes())
    encoded = run_javascript(SCRIPT, {**metadata_of(session), "texts": TEXTS})

    rows = []
    for text in encoded:
        ids = np.array([text["ids"]], np.int32)
        inputs: dict[str, Any] = {"ids": ids, "lengths": np.array([ids.size], np.int32)}
        for number, pairs in enumerate(text["ngrams"]):
            table = np.array(pairs, np.int64).reshape(-1, 2)
            inputs[f"ngram_keys_{number}"] = table[:, 0]
            inputs[f"ngram_counts_{number}"] = table[:, 1].astype(np.int32)
            inputs[f"ngram_texts_{number}"] = np.zeros(len(table), np.int64)
        rows.append(session.run(["probabilities"], inputs)[0][0])

    np.testing.assert_allclose(rows, Predictor.load(folder).predict_proba(TEXTS), rtol=0, atol=1e-5)
