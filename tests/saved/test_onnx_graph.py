import numpy as np
import onnx
import pytest

from lamatext.errors import ModelError
from lamatext.runtime.engine import Result
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.onnx_graph import build_graph
from lamatext.settings import ModelSettings
from tests.runtime.networks import SYSTEMS, random_network, random_texts, settings

OPTIONS: dict[str, dict[str, object]] = {
    "paper": {},
    "rank": {"rank": 3},
    "states": {"score_input": "states", "rank": 2},
    "bare": {"score_tanh": False, "score_l2": False},
    "no-tanh": {"score_tanh": False},
    "no-l2": {"score_l2": False},
    "initial_temperature": {"initial_temperature": 8.0},
    "max-pool": {"initial_temperature": 3.0},
    "one-head": {"heads": 1},
    "linear": {"classifier_width": 0},
}
READ_BY = {"lama": set(OPTIONS), "san": {"paper", "max-pool", "one-head", "linear"}}
READ_BY["bilinear"] = {"paper", "states", "max-pool", "linear"}
CASES = [
    (name, option)
    for name in SYSTEMS
    for option in OPTIONS
    if option in READ_BY.get(name.split("-")[0], {"paper", "linear"})
]
SIZES = [(1, 1), (1, 2), (2, 1), (5, 3), (3, 17), (64, 40), (17, 200), (1, 200)]


def assert_equal_results(ours: Result, theirs: Result, lengths: np.ndarray) -> None:
    mask = np.arange(theirs.states.shape[1]) < lengths[:, None]  # (B, T)
    np.testing.assert_allclose(ours.logits, theirs.logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.embedding, theirs.embedding, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.states[mask], theirs.states[mask], rtol=1e-5, atol=1e-5)
    assert (ours.weights is None) == (theirs.weights is None)
    if ours.weights is not None and theirs.weights is not None:
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-5, atol=1e-5)
        assert not ours.weights.transpose(0, 2, 1)[~mask].any()


@pytest.mark.parametrize(("name", "option"), CASES)
def test_graph_says_what_torch_says(name: str, option: str) -> None:
    model = settings(name, **OPTIONS[option])
    torch_engine, tensors = random_network(model)
    engine = OnnxEngine(build_graph(model, tensors).SerializeToString())

    for seed, (texts, words) in enumerate(SIZES):
        ids, lengths = random_texts(texts, words, seed=seed)
        assert_equal_results(engine.run(ids, lengths), torch_engine.run(ids, lengths), lengths)


@pytest.mark.parametrize("name", ["lama-ctx", "san", "bigru", "cnn"])
def test_graph_of_the_papers_sizes_says_what_torch_says(name: str) -> None:
    model = ModelSettings.model_validate({"name": name})
    torch_engine, tensors = random_network(model, width=100)
    engine = OnnxEngine(build_graph(model, tensors).SerializeToString())
    ids, lengths = random_texts(16, 150)

    ours, theirs = engine.run(ids, lengths), torch_engine.run(ids, lengths)

    largest = np.abs(theirs.logits).max()  # hundreds, with these weights
    np.testing.assert_allclose(ours.logits / largest, theirs.logits / largest, atol=1e-5)
    np.testing.assert_allclose(ours.embedding, theirs.embedding, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SYSTEMS)
def test_text_in_a_batch_gets_the_logits_it_gets_alone(name: str) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    engine = OnnxEngine(build_graph(model, tensors).SerializeToString())
    ids, lengths = random_texts(6, 30)

    together = engine.logits(ids, lengths)

    for row, length in enumerate(lengths):
        alone = engine.logits(ids[row : row + 1, :length], lengths[row : row + 1])
        np.testing.assert_allclose(together[row : row + 1], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lama-ctx", "san", "bigru"])
def test_states_of_padding_are_zero(name: str) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    engine = OnnxEngine(build_graph(model, tensors).SerializeToString())
    ids, lengths = random_texts(9, 30)

    states = engine.run(ids, lengths).states

    assert not states[np.arange(30) >= lengths[:, None]].any()
    assert states[np.arange(30) < lengths[:, None]].all()


def test_words_whose_scores_are_all_zero_get_equal_weights() -> None:
    model = settings("lama-ctx")
    _, tensors = random_network(model)
    tensors["pooling.q.weight"][:] = 0
    engine = OnnxEngine(build_graph(model, tensors).SerializeToString())

    weights = engine.run(*random_texts(1, 4)).weights

    assert weights is not None
    np.testing.assert_allclose(weights, np.full((1, 5, 4), 0.25))


@pytest.mark.parametrize("name", SYSTEMS)
def test_graph_keeps_to_the_rules_of_onnx(name: str) -> None:
    model = settings(name, initial_temperature=2.0)
    _, tensors = random_network(model)

    onnx.checker.check_model(build_graph(model, tensors), full_check=True)


@pytest.mark.parametrize("name", ["te", "bert"])
def test_systems_without_a_graph_are_named(name: str) -> None:
    with pytest.raises(ModelError, match=rf"{name} has no ONNX graph.*TextClassifier\.load"):
        build_graph(settings(name), {})
