"""Tensors of a saved network: names, shapes, types and values are checked before anything runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import lamatext
from lamatext import ModelError, Predictor
from lamatext.saved.format import (
    CARD,
    CONFIG,
    NGRAMS,
    NGRAMS_OF_FORMAT_1,
    TOKENIZER,
    VOCAB,
    WEIGHTS,
    checksum,
)
from lamatext.saved.model_io import load_ngrams
from lamatext.saved.network_tensors import network_shapes
from lamatext.settings import Recipe

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"

Tensors = dict[str, NDArray[Any]]
Change = Callable[[Tensors], object]

VARIANTS: list[dict[str, object]] = [
    {},
    {"model.classifier_width": 0},
    {"model.score_input": "states", "model.rank": 2},
    {"model.initial_temperature": 4.0},
    {"model.transformer_layers": 2, "model.end_positions": True, "model.window_radius": 3},
    {"model.position_encoding": "learned", "model.transformer_positions": 60},
    {"model.position_encoding": "none", "model.window_radius": 0, "model.transformer_layers": 0},
    {"model.phrases": "punctuation"},
]


@pytest.mark.parametrize("values", VARIANTS)
@pytest.mark.parametrize(
    "name",
    [
        *("lama", "lama-ctx", "lama-ctx-dp", "lama-encoder", "bilinear", "san", "bigru", "cnn"),
        *("avg", "te", "lama-blocks", "lama-phrases"),
    ],
)
def test_the_expected_shapes_are_those_of_the_network(name: str, values: dict[str, object]) -> None:
    pytest.importorskip("torch")
    from lamatext.nn.network import build_network

    sizes = {"model.name": name, "model.hidden_size": 7, "model.heads": 3, "text.vector_width": 12}
    recipe = Recipe().with_values({**sizes, "text.max_words": 50, **values})
    network = build_network(recipe.model, vocabulary=20, width=12, classes=5)

    expected = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}

    assert network_shapes(recipe, vocabulary=20, classes=5) == expected


def change_tensors(folder: Path, file: str, change: Change) -> None:
    """Change the tensors of a saved model and recompute its checksum, as an attacker would."""
    tensors = load_file(folder / file)
    change(tensors)
    save_file(tensors, folder / file)
    sign(folder, file)


def sign(folder: Path, file: str) -> None:
    config = json.loads((folder / CONFIG).read_text())
    config["files"][file] = checksum(folder / file)
    (folder / CONFIG).write_text(json.dumps(config))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "model"))


def put(name: str, make: Callable[[NDArray[Any]], NDArray[Any]]) -> Change:
    def change(tensors: Tensors) -> None:
        tensors[name] = np.ascontiguousarray(make(tensors[name]))

    return change


HOSTILE: dict[str, Change] = {
    "GRU input wider than the embedding": put(
        "encoder.gru.weight_ih_l0", lambda t: np.zeros((len(t), 4000), t.dtype)
    ),
    "three biases": put("encoder.gru.bias_hh_l0", lambda t: t[:3]),
    "no reverse direction": lambda tensors: tensors.pop("encoder.gru.weight_hh_l0_reverse"),
    "NaN": put("encoder.gru.bias_ih_l0", lambda t: np.full_like(t, np.nan)),
    "infinity": put("classifier.1.bias", lambda t: np.full_like(t, np.inf)),
    "weights that overflow": put("classifier.1.weight.scale", lambda t: np.full_like(t, 3e38)),
    "scale is NaN": put("embedding.weight.scale", lambda t: np.full_like(t, np.nan)),
    "scale is missing": lambda tensors: tensors.pop("embedding.weight.scale"),
    "scale is short": put("embedding.weight.scale", lambda t: t[:2]),
    "int64": put("pooling.q.weight", lambda t: t.astype(np.int64)),
    "uint8": put("pooling.q.weight", lambda t: t.astype(np.uint8)),
    "int8 vector": put("classifier.1.bias", lambda t: t.astype(np.int8)),
    "unknown tensor": lambda tensors: tensors.update(more=np.zeros(3, np.float32)),
    "no tensor": lambda tensors: tensors.clear(),
}


@pytest.mark.parametrize("loader", ["Predictor", "TextClassifier"])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_network_is_refused(case: str, loader: str, folder: Path) -> None:
    if loader == "TextClassifier":
        pytest.importorskip("sklearn")
    change_tensors(folder, WEIGHTS, HOSTILE[case])

    with pytest.raises(ModelError, match=r"model\.safetensors: "):
        getattr(lamatext, loader).load(folder).predict_proba(["a superb film"])


HOSTILE_NGRAMS: dict[str, Change] = {
    "keys out of order": put("0.keys", lambda t: t[::-1].copy()),
    "weights of three classes": put("0.weights", lambda t: np.repeat(t, 3, axis=0)),
    "steps are NaN": put("0.steps", lambda t: np.full_like(t, np.nan)),
    "bias that overflows": put("bias", lambda t: np.full_like(t, 3e38)),
    "idf is short": put("0.idf", lambda t: t[:-1]),
    "bias is int8": put("bias", lambda t: t.astype(np.int8)),
    "keys are missing": lambda tensors: tensors.pop("0.keys"),
}


@pytest.mark.parametrize("case", HOSTILE_NGRAMS)
def test_a_hostile_n_gram_model_is_refused(case: str, folder: Path) -> None:
    change_tensors(folder, NGRAMS_OF_FORMAT_1, HOSTILE_NGRAMS[case])

    with pytest.raises(ModelError, match=r"wide\.safetensors: .*n-gram"):
        Predictor.load(folder).predict_proba(["a superb film"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (2).to_bytes(8, "little") + b"[]",
        (60).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}'.ljust(60),
        (60).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}'.ljust(60),
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32"}}'.ljust(60),
        (60).to_bytes(8, "little") + b'{"a":{"dtype":[],"shape":1,"data_offsets":2}}'.ljust(60),
    ],
)
def test_a_damaged_safetensors_file_is_named(data: bytes, folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(data)
    sign(folder, WEIGHTS)

    with pytest.raises(ModelError, match=r"model\.safetensors: not a valid safetensors file"):
        Predictor.load(folder)


@pytest.mark.parametrize("file", [CARD, NGRAMS])
def test_a_link_out_of_the_folder_is_refused_though_the_config_does_not_list_it(
    file: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("of another user")
    (folder / file).unlink(missing_ok=True)
    (folder / file).symlink_to(tmp_path / "secret")

    with pytest.raises(ModelError, match="symbolic link out of the model's folder"):
        Predictor.load(folder)


@pytest.mark.parametrize("file", [WEIGHTS, CONFIG])
def test_a_symbolic_link_out_of_the_folder_is_refused(
    file: str, folder: Path, tmp_path: Path
) -> None:
    shutil.move(folder / file, tmp_path / "elsewhere")
    (folder / file).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ModelError, match="symbolic link out of the model's folder"):
        Predictor.load(folder)


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS, NGRAMS, TOKENIZER, VOCAB])
def test_a_file_that_does_not_fit_into_memory_is_a_named_error(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file of many gigabytes takes no space in an archive."""
    from tests.serve.saved import save

    folder, read_bytes = save(tmp_path / "model", ngrams=True), Path.read_bytes

    def read_all_but_one(path: Path) -> bytes:
        if path.name == file:
            raise MemoryError
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read_all_but_one)

    with pytest.raises(ModelError, match=file.replace(".", r"\.")):
        Predictor.load(folder)


def test_a_hostile_graph_in_the_folder_is_never_run(folder: Path) -> None:
    before = Predictor.load(folder).predict_proba(["a superb film"])
    (folder / "model.onnx").write_bytes(b"Loop forever")
    sign(folder, "model.onnx")

    np.testing.assert_array_equal(Predictor.load(folder).predict_proba(["a superb film"]), before)


def save_transformer(folder: Path, change: dict[str, object]) -> Path:
    """Save a random te model, then change settings in its config, as an attacker would."""
    from tests.serve.saved import save

    save(folder, "te", text={"max_words": 20}, heads=4)
    config = json.loads((folder / CONFIG).read_text())
    config["recipe"]["model"] |= change
    (folder / CONFIG).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transformer_layers": 1 << 40}, "too few for the 1099511627776 layers"),
        ({"transformer_layers": 2}, r"encoder\.layers\.1\..* is missing"),
        ({"transformer_positions": 1 << 40}, r"encoder\.positions\.weight is \(512, "),
        ({"transformer_feed_forward": 1 << 40}, r"encoder\.layers\.0\.linear1\.weight is "),
    ],
)
def test_a_transformer_that_the_file_does_not_hold_is_never_built(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")

    with pytest.raises(ModelError, match=rf"model\.safetensors: .*{message}"):
        Predictor.load(save_transformer(tmp_path / "model", change))


def test_an_n_gram_model_next_to_subwords_is_refused(folder: Path) -> None:
    config = json.loads((folder / CONFIG).read_text())

    with pytest.raises(ModelError, match=r"wide\.safetensors: bert has no n-gram model"):
        load_ngrams(folder, config, Recipe().with_values({"model.name": "bert"}))


def test_weights_within_their_limits_that_overflow_are_a_named_error(tmp_path: Path) -> None:
    from tests.serve.saved import save_overflowing

    predictor = Predictor.load(save_overflowing(tmp_path / "model"))

    for method in (predictor.predict, predictor.predict_proba, predictor.transform):
        for texts in (["a good film"], ["a good film", "a bad one"]):
            with pytest.raises(ModelError, match="so large that a result is not a number"):
                method(texts)
    with pytest.raises(ModelError, match="so large that a result is not a number"):
        predictor.explain("a good film")
