import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from lamatext.errors import ModelError
from lamatext.runtime.engine import EngineOutput
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.format import GRAPH, WEIGHTS
from lamatext.saved.onnx_export import build_onnx_graph
from lamatext.saved.quantization import Storage, dequantize, quantize
from lamatext.settings import ModelSettings
from tests.runtime.networks import (
    SYSTEMS,
    load_engine,
    random_network,
    random_texts,
    run_onnx_file,
    save,
    settings,
)

OPTIONS: dict[str, dict[str, object]] = {
    "paper": {},
    "rank": {"rank": 3},
    "states": {"score_input": "states", "rank": 2},
    "bare": {"score_tanh": False, "score_l2": False},
    "no-tanh": {"score_tanh": False},
    "no-l2": {"score_l2": False},
    "temperature": {"initial_temperature": 8.0},
    "one-head": {"heads": 1},
    "linear": {"classifier_width": 0},
    "no-blocks": {"transformer_layers": 0, "window_radius": 0, "position_encoding": "none"},
    "two-blocks": {"transformer_layers": 2, "end_positions": True, "rank": 2},
    "learned": {"position_encoding": "learned", "end_positions": True, "window_radius": 1},
    "whole-text": {"phrases": None},
    "each-word": {"phrases": 1, "rank": 2, "initial_temperature": 8.0},
    "punctuation": {"phrases": "punctuation"},
}
BLOCKS, PHRASES = (
    {"no-blocks", "two-blocks", "learned"},
    {"whole-text", "each-word", "punctuation"},
)
READ_BY = {"lama": {*OPTIONS} - BLOCKS - PHRASES, "san": {"paper", "one-head", "linear"}}
READ_BY |= {"lama-blocks": {*OPTIONS} - PHRASES, "lama-phrases": {*OPTIONS} - BLOCKS}
READ_BY["bilinear"] = {"paper", "states", "linear"}
CASES = [
    (name, option)
    for name in SYSTEMS
    for option in OPTIONS
    if option in (READ_BY.get(name) or READ_BY.get(name.split("-")[0], {"paper", "linear"}))
]
SIZES = [(1, 1), (1, 2), (2, 1), (5, 3), (3, 17), (64, 40), (17, 200), (1, 200)]


def assert_equal_results(ours: EngineOutput, theirs: EngineOutput, lengths: np.ndarray) -> None:
    mask = np.arange(theirs.states.shape[1]) < lengths[:, None]  # (B, T)
    # Sums of a thousand terms of up to 10, which each compiler rounds in another way.
    np.testing.assert_allclose(ours.logits, theirs.logits, rtol=1e-5, atol=3e-5)
    np.testing.assert_allclose(ours.embedding, theirs.embedding, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.states[mask], theirs.states[mask], rtol=1e-5, atol=1e-5)
    assert (ours.weights is None) == (theirs.weights is None)
    if ours.weights is not None and theirs.weights is not None:
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-5, atol=1e-5)
        assert not ours.weights.transpose(0, 2, 1)[~mask].any()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("name", "option"), CASES)
def test_the_graph_gives_the_outputs_of_torch(name: str, option: str, compiled: bool) -> None:
    model = settings(name, **OPTIONS[option])
    torch_engine, tensors = random_network(model)
    engine = OnnxEngine(model, tensors, compiled=compiled)

    for seed, (texts, words) in enumerate(SIZES):
        ids, lengths = random_texts(texts, words, seed=seed)
        assert_equal_results(engine.run(ids, lengths), torch_engine.run(ids, lengths), lengths)


@pytest.mark.parametrize("name", ["lama-ctx", "lama-blocks", "lama-phrases", "san", "bigru", "cnn"])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_graph_gives_the_outputs_of_torch_at_the_sizes_of_the_paper(
    name: str, compiled: bool
) -> None:
    model = ModelSettings.model_validate({"name": name})
    torch_engine, tensors = random_network(model, width=100)
    engine = OnnxEngine(model, tensors, compiled=compiled)
    ids, lengths = random_texts(16, 150)

    ours, theirs = engine.run(ids, lengths), torch_engine.run(ids, lengths)

    largest = np.abs(theirs.logits).max()  # hundreds, with these weights
    np.testing.assert_allclose(ours.logits / largest, theirs.logits / largest, atol=1e-5)
    np.testing.assert_allclose(ours.embedding, theirs.embedding, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_text_has_the_same_logits_alone_and_in_a_batch(name: str, compiled: bool) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    engine = OnnxEngine(model, tensors, compiled=compiled)
    ids, lengths = random_texts(6, 30)

    together = engine.logits(ids, lengths)

    for row, length in enumerate(lengths):
        alone = engine.logits(ids[row : row + 1, :length], lengths[row : row + 1])
        np.testing.assert_allclose(together[row : row + 1], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lama-ctx", "san", "bigru"])
def test_states_of_padding_are_zero(name: str) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    engine = OnnxEngine(model, tensors)
    ids, lengths = random_texts(9, 30)

    states = engine.run(ids, lengths).states

    assert not states[np.arange(30) >= lengths[:, None]].any()
    assert states[np.arange(30) < lengths[:, None]].all()


@pytest.mark.parametrize("compiled", [True, False])
def test_words_with_zero_scores_get_equal_weights(compiled: bool) -> None:
    model = settings("lama-ctx")
    _, tensors = random_network(model)
    tensors["pooling.q.weight"][:] = 0
    engine = OnnxEngine(model, tensors, compiled=compiled)

    weights = engine.run(*random_texts(1, 4)).weights

    assert weights is not None
    np.testing.assert_allclose(weights, np.full((1, 5, 4), 0.25))


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_graph_passes_the_onnx_checker(name: str) -> None:
    model = settings(name, initial_temperature=2.0)
    _, tensors = random_network(model)

    onnx.checker.check_model(
        onnx.load_from_string(build_onnx_graph(model, tensors)), full_check=True
    )


@pytest.mark.parametrize("name", ["te", "bert"])
def test_a_system_without_a_graph_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match=rf"{name} has no ONNX graph.*TextClassifier\.load"):
        build_onnx_graph(settings(name), {})


@pytest.mark.parametrize("name", SYSTEMS)
def test_external_tensors_give_the_same_bits_as_internal_ones(name: str, tmp_path: Path) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    inside = OnnxEngine(model, tensors, compiled=False)
    ids, lengths = random_texts(5, 20)

    outside = run_onnx_file(save(tmp_path, model, tensors), ids, lengths)

    np.testing.assert_array_equal(outside, inside.logits(ids, lengths))


def test_weights_are_stored_once(tmp_path: Path) -> None:
    model = settings("lama-ctx", classifier_width=512)
    _, tensors = random_network(model, vocabulary=5000, width=100)

    save(tmp_path, model, tensors)

    assert (tmp_path / GRAPH).stat().st_size < 10_000
    assert {file.name for file in tmp_path.iterdir()} == {GRAPH, WEIGHTS}


def test_a_saved_model_runs_after_its_folder_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    ids, lengths = random_texts(5, 20)
    folder = save(tmp_path / "first", model, tensors)

    shutil.move(folder, tmp_path / "Zweite, größere Mappe")
    monkeypatch.chdir(tmp_path)
    relative = run_onnx_file(Path("Zweite, größere Mappe"), ids, lengths)
    monkeypatch.chdir(tmp_path / "Zweite, größere Mappe")
    here = run_onnx_file(Path(), ids, lengths)

    np.testing.assert_allclose(relative, torch_engine.logits(ids, lengths), atol=1e-5)
    np.testing.assert_array_equal(here, relative)


def test_writing_a_second_model_replaces_the_graph(tmp_path: Path) -> None:
    first, second = settings("lama-ctx"), settings("avg")
    _, tensors = random_network(first)
    save(tmp_path, first, tensors)
    torch_engine, tensors = random_network(second)
    ids, lengths = random_texts(3, 8)

    save(tmp_path, second, tensors)

    logits = run_onnx_file(tmp_path, ids, lengths)
    np.testing.assert_allclose(logits, torch_engine.logits(ids, lengths), atol=1e-5)


@pytest.mark.parametrize("storage", ["float16", "int8"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_graph_computes_with_the_dequantized_tensors(
    name: str, storage: Storage, tmp_path: Path
) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    rounded = dequantize(quantize(tensors, storage))
    expected = OnnxEngine(model, rounded)
    ids, lengths = random_texts(5, 20)

    engine = load_engine(save(tmp_path, model, tensors, storage), model)

    ours, theirs = engine.run(ids, lengths), expected.run(ids, lengths)
    np.testing.assert_allclose(ours.logits, theirs.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("storage", "share"), [("float16", 0.51), ("int8", 0.3)])
@pytest.mark.parametrize("name", ["lama-ctx", "bigru"])
def test_quantized_models_are_smaller(
    name: str, storage: Storage, share: float, tmp_path: Path
) -> None:
    model = settings(name, hidden_size=50, heads=15, classifier_width=512)
    _, tensors = random_network(model, vocabulary=7000, width=100)
    size = {}

    for kind in ("float32", storage):
        folder = save(tmp_path / kind, model, tensors, kind)
        size[kind] = sum(file.stat().st_size for file in folder.iterdir())

    assert size[storage] <= share * size["float32"]
