import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from lamatext.data.token_ids import TokenIds
from lamatext.kernels.gru_dispatch import SWITCH
from lamatext.runtime import compiled_network, onnx_engine
from lamatext.runtime.compiled_network import CompiledNetwork, compiled_library
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.format import STATES_INPUT, WEIGHTS
from lamatext.saved.quantization import SCALE, Storage, dequantize, quantize
from lamatext.saved.safetensors_layout import tensor_views
from lamatext.settings import ModelSettings
from tests.runtime.networks import (
    VOCABULARY,
    load_engine,
    random_network,
    random_texts,
    run_onnx_file,
    save,
    settings,
)
from tests.saved.test_onnx_export import SIZES, assert_equal_results

compiled = pytest.mark.skipif(
    compiled_library() is None, reason="vector_network.c is not compiled here"
)
STORAGES: tuple[Storage, ...] = ("float32", "float16", "int8")
OPTIONS: dict[str, dict[str, object]] = {
    "paper": {},
    "default": {"initial_temperature": 8.0, "classifier_width": 0},
    "bare": {"score_tanh": False, "score_l2": False, "score_input": "states"},
    "wide": {"hidden_size": 33, "heads": 17, "classifier_width": 40},
}


def compile_network(
    model: ModelSettings, tensors: dict[str, np.ndarray], lanes: int | None = None
) -> CompiledNetwork:
    code = compiled_library()
    assert code is not None
    return CompiledNetwork(code, model, tensors, lanes=lanes)


def compile_gru(tensors: dict[str, np.ndarray], lanes: int | None = None) -> CompiledNetwork:
    return compile_network(settings("bigru"), tensors, lanes)


def available_lanes() -> list[int]:
    code = compiled_library()
    return [] if code is None else [lanes for lanes in (8, 16) if lanes <= code.lanes()]


@compiled
@pytest.mark.parametrize("lanes", available_lanes())
@pytest.mark.parametrize("known", [0, 40, 2048])
@pytest.mark.parametrize("hidden", [1, 7, 8, 9, 17, 32, 33, 41, 50, 64])
def test_compiled_states_equal_those_of_torch(
    hidden: int, known: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "plain")
    monkeypatch.setattr(compiled_network, "PRECOMPUTED", known)
    torch_engine, tensors = random_network(settings("bigru", hidden_size=hidden))
    for name in tensors:
        tensors[name] /= hidden**0.5  # larger weights would enlarge every rounding
    torch_engine.network.load_state_dict({k: torch.from_numpy(v) for k, v in tensors.items()})
    gru = compile_gru(tensors, lanes)

    for seed, (texts, words) in enumerate(SIZES):
        ids, lengths = random_texts(texts, words, seed=seed)
        expected = torch_engine.run(ids, lengths).states
        np.testing.assert_allclose(gru.states(ids, lengths), expected, rtol=1e-5, atol=1e-6)


@compiled
@pytest.mark.parametrize("storage", STORAGES)
def test_quantized_tensors_give_the_states_of_dequantized_ones(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_network, "PRECOMPUTED", 100)
    _, tensors = random_network(settings("bigru"))
    stored = quantize(tensors, storage)
    ids, lengths = random_texts(9, 30)

    states = compile_gru(stored).states(ids, lengths)

    np.testing.assert_array_equal(states, compile_gru(dequantize(stored)).states(ids, lengths))


@compiled
def test_every_matrix_may_be_stored_as_int8() -> None:
    """The format allows it, also where the writer of this package stores float16."""
    _, tensors = random_network(settings("bigru"))
    stored = quantize(tensors, "float32")
    for name in [name for name, tensor in tensors.items() if tensor.ndim == 2]:
        stored[name] = np.rint(tensors[name] / 0.02).astype(np.int8)
        stored[name + SCALE] = np.full(len(tensors[name]), 0.02, np.float32)
    ids, lengths = random_texts(9, 30)

    states = compile_gru(stored).states(ids, lengths)

    np.testing.assert_array_equal(states, compile_gru(dequantize(stored)).states(ids, lengths))


@compiled
def test_states_stay_finite_when_the_gates_saturate() -> None:
    _, tensors = random_network(settings("bigru"))
    for name in tensors:
        tensors[name] *= 1e4
    ids, lengths = random_texts(3, 20)

    states = compile_gru(tensors).states(ids, lengths)

    assert np.isfinite(states).all()
    assert np.abs(states).max() <= 1


@compiled
@pytest.mark.parametrize("lanes", available_lanes())
@pytest.mark.parametrize("hidden", [7, 41])
@pytest.mark.parametrize("texts", [2, 3, 4, 5, 6, 7, 8, 9, 17])
def test_a_text_has_the_same_states_alone_and_in_a_batch(
    texts: int, hidden: int, lanes: int
) -> None:
    gru = compile_gru(random_network(settings("bigru", hidden_size=hidden))[1], lanes)
    ids, lengths = random_texts(texts, 30)

    together = gru.states(ids, lengths)

    for row, length in enumerate(lengths):
        alone = gru.states(ids[row : row + 1, :length], lengths[row : row + 1])
        np.testing.assert_array_equal(together[row, :length], alone[0])
        assert not together[row, length:].any()


@compiled
@pytest.mark.parametrize("lanes", available_lanes())
@pytest.mark.parametrize("option", sorted(OPTIONS))
@pytest.mark.parametrize("name", ["lama", "lama-ctx"])
def test_compiled_outputs_equal_those_of_torch_in_float64(
    name: str, option: str, lanes: int
) -> None:
    model = settings(name, **OPTIONS[option])
    torch_engine, tensors = random_network(model)
    network = compile_network(model, tensors, lanes)
    torch_engine.network.double()

    for seed, (texts, words) in enumerate(SIZES):
        ids, lengths = random_texts(texts, words, seed=seed)
        output = network.outputs(ids, lengths)
        assert_equal_results(output, torch_engine.run(ids, lengths), lengths)
        np.testing.assert_array_equal(network.logits(ids, lengths), output.logits)


@compiled
@pytest.mark.parametrize("lanes", available_lanes())
def test_a_text_has_the_same_logits_alone_and_in_a_batch_bit_for_bit(lanes: int) -> None:
    model = settings("lama-ctx", initial_temperature=8.0)
    network = compile_network(model, random_network(model)[1], lanes)
    ids, lengths = random_texts(19, 60)

    together = network.logits(ids, lengths)

    for row, length in enumerate(lengths):
        alone = network.logits(ids[row : row + 1, :length], lengths[row : row + 1])
        np.testing.assert_array_equal(together[row], alone[0])


@compiled
@pytest.mark.parametrize("lanes", available_lanes())
@pytest.mark.parametrize("texts", [1, 2, 7, 8, 9, 40])
def test_texts_without_padding_have_the_logits_of_a_padded_batch_bit_for_bit(
    texts: int, lanes: int
) -> None:
    model = settings("lama-ctx", initial_temperature=8.0, classifier_width=20)
    network = compile_network(model, random_network(model)[1], lanes)
    ids, lengths = random_texts(texts, 50)
    rows = TokenIds.from_lists([row[:length] for row, length in zip(ids, lengths, strict=True)])

    logits = network.text_logits(rows)

    np.testing.assert_array_equal(logits, network.logits(ids, lengths))
    part = TokenIds(np.concatenate([ids[0], rows.ids]), rows.offsets + ids.shape[1])
    np.testing.assert_array_equal(network.text_logits(part), logits)


@compiled
@pytest.mark.parametrize("offsets", [[0, 2, 4], [-1, 1, 3], [0, 3, 2], [5, 6, 7]])
def test_offsets_that_do_not_fit_the_ids_are_refused(offsets: list[int]) -> None:
    model = settings("lama-ctx")
    network = compile_network(model, random_network(model)[1])

    with pytest.raises(ValueError, match="offsets of the texts do not fit"):
        network.text_logits(TokenIds(np.ones(3, np.int32), np.array(offsets)))


@compiled
def test_a_quantized_network_gives_the_logits_of_a_dequantized_one() -> None:
    model = settings("lama-ctx")
    stored = quantize(random_network(model)[1], "int8")
    ids, lengths = random_texts(9, 30)

    logits = compile_network(model, stored).logits(ids, lengths)

    expected = compile_network(model, dequantize(stored)).logits(ids, lengths)
    np.testing.assert_array_equal(logits, expected)


@compiled
@pytest.mark.parametrize(
    "name", ["encoder.gru.weight_ih", "pooling.p", "pooling.q", "classifier.3"]
)
def test_tensors_that_do_not_fit_together_are_refused(name: str) -> None:
    model = settings("lama-ctx")
    tensors = random_network(model)[1]
    for key in [key for key in tensors if key.startswith(name) and tensors[key].ndim == 2]:
        tensors[key] = tensors[key][:, :-1].copy()

    with pytest.raises(ValueError, match="expected a layer of"):
        compile_network(model, tensors)


@compiled
@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 2**31 - 1])
def test_ids_outside_the_vocabulary_are_refused(wrong: int) -> None:
    network = compile_gru(random_network(settings("bigru"))[1])

    with pytest.raises(IndexError, match=f"at least 0 and below {VOCABULARY}"):
        network.states(np.array([[3, wrong]], np.int32), np.array([2], np.int32))


@compiled
def test_a_batch_of_another_shape_is_refused() -> None:
    network = compile_gru(random_network(settings("bigru"))[1])

    with pytest.raises(ValueError, match=r"expected ids \(B, T\) and lengths \(B,\)"):
        network.states(np.zeros((2, 3), np.int32), np.ones(1, np.int32))


@compiled
def test_a_negative_length_gives_zero_states() -> None:
    gru = compile_gru(random_network(settings("bigru"))[1])

    states = gru.states(np.array([[3, 4, 5]] * 2, np.int32), np.array([-9, 3], np.int32))

    assert not states[0].any()
    assert states[1].any(axis=1).all()


@compiled
def test_arrays_with_any_strides_are_read_correctly() -> None:
    gru = compile_gru(random_network(settings("bigru"))[1])
    ids, lengths = random_texts(6, 30)
    strided = np.repeat(ids, 2, axis=1)[:, ::2]

    states = gru.states(strided, np.repeat(lengths, 3)[::3].astype(np.int64).astype(np.int32))

    np.testing.assert_array_equal(states, gru.states(ids, lengths))
    np.testing.assert_array_equal(strided, ids)  # left as they were


@compiled
def test_several_threads_may_use_one_compiled_gru() -> None:
    gru = compile_gru(random_network(settings("bigru"))[1])
    batches = [random_texts(4, 1 + seed, seed=seed) for seed in range(40)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda batch: gru.states(*batch), batches))

    for batch, states in zip(batches, results, strict=True):
        np.testing.assert_array_equal(states, gru.states(*batch))


@compiled
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ["lama-ctx", "san", "bigru"])
def test_a_saved_model_gives_the_same_outputs_with_and_without_compiled_code(
    name: str, storage: Storage, tmp_path: Path
) -> None:
    model = settings(name)
    folder = save(tmp_path, model, random_network(model)[1], storage)
    engine, plain = load_engine(folder, model), load_engine(folder, model, compiled=False)

    for seed, (texts, words) in enumerate(SIZES):
        ids, lengths = random_texts(texts, words, seed=seed)
        output = engine.run(ids, lengths)
        assert_equal_results(output, plain.run(ids, lengths), lengths)
        compiled_states = compile_gru(tensor_views((folder / WEIGHTS).read_bytes())).states(
            ids, lengths
        )
        np.testing.assert_array_equal(output.states, compiled_states)


def test_without_compiled_code_the_graph_runs_the_gru(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = settings("lama-ctx")
    folder = save(tmp_path, model, random_network(model)[1])
    ids, lengths = random_texts(5, 20)

    monkeypatch.setattr(onnx_engine, "compiled_library", lambda: None)
    logits = load_engine(folder, model).logits(ids, lengths)

    np.testing.assert_array_equal(logits, run_onnx_file(folder, ids, lengths))


def test_code_that_is_missing_or_cannot_run_here_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled_network, "find_spec", lambda _: None)
    assert compiled_library.__wrapped__() is None

    monkeypatch.undo()
    if (code := compiled_library()) is not None:
        monkeypatch.setattr("ctypes.CDLL", lambda _: code)
        monkeypatch.setattr(code, "lanes", lambda: 0)
        assert compiled_library.__wrapped__() is None


def test_a_graph_uses_the_states_passed_to_it() -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    session = OnnxEngine(model, tensors).session
    ids, lengths = random_texts(4, 15)
    others, _ = random_texts(4, 15, seed=1)
    given = torch_engine.run(others, lengths).states

    states, logits = session.run(
        ["states", "logits"], {"ids": ids, "lengths": lengths, STATES_INPUT: given}
    )

    np.testing.assert_array_equal(states, given)
    assert np.abs(logits - torch_engine.logits(ids, lengths)).max() > 1e-3
    assert [value.name for value in session.get_inputs()] == ["ids", "lengths"]


MEMORY = """
import resource
import numpy as np
from lamatext.data.token_ids import TokenIds
from tests.runtime.test_compiled_network import compile_network, random_network, settings

network = compile_network(settings("lama-ctx"), random_network(settings("lama-ctx"))[1])
peaks = []
for texts in (1, 8):
    network.text_logits(TokenIds.from_lists([np.ones(60_000, np.int32)] * texts))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peaks[1] - peaks[0])
"""


@compiled
def test_long_texts_are_computed_one_after_the_other() -> None:
    """The states of 8 texts together would take 8 times the memory of one."""
    root = Path(__file__).parents[2]

    run = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, cwd=root
    )

    assert float(run.stdout) < 10  # MB; 35 if they are computed together
