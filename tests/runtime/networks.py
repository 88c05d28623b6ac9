"""Networks with random weights, for tests of engines and graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from lamatext.nn.network import build_network
from lamatext.runtime.engine import Ids
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.runtime.torch_engine import TorchEngine
from lamatext.saved.format import GRAPH, WEIGHTS
from lamatext.saved.onnx_export import write_onnx
from lamatext.saved.quantization import Storage, quantize
from lamatext.saved.safetensors_layout import read_tensors
from lamatext.settings import ModelSettings

VOCABULARY, WIDTH, CLASSES = 300, 12, 4

SYSTEMS = (
    "lama", "lama-ctx", "lama-ctx-dp", "lama-ctx-de", "lama-encoder", "lama-blocks",
    "lama-phrases", "bilinear", "san", "bigru", "cnn", "avg",
)  # fmt: skip


def settings(name: str, **values: object) -> ModelSettings:
    """Return settings of a small network."""
    sizes = {"hidden_size": 7, "heads": 5, "classifier_width": 9, "cnn_filters": 6, "san_width": 11}
    sizes |= {"transformer_feed_forward": 8} if name == "lama-blocks" else {}
    return ModelSettings.model_validate({"name": name, **sizes, **values})


def random_network(
    model: ModelSettings, *, vocabulary: int = VOCABULARY, width: int = WIDTH
) -> tuple[TorchEngine, dict[str, NDArray[Any]]]:
    """Return a network with random tensors, including the embedding of padding."""
    torch.manual_seed(0)
    network = build_network(model, vocabulary=vocabulary, width=width, classes=CLASSES)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.4)
        if network.phrases is not None and network.phrases.ends is not None:
            network.phrases.ends.bernoulli_(0.2)
    tensors = {name: value.numpy().copy() for name, value in network.state_dict().items()}
    return TorchEngine(network), tensors


def random_texts(texts: int, words: int, *, seed: int = 0) -> tuple[Ids, Ids]:
    """Return ids (B, T) with random ids in the padding, and lengths (B,), one of them T."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, VOCABULARY, (texts, words), dtype=np.int32)
    lengths = draw.integers(1, words + 1, texts, dtype=np.int32)
    lengths[draw.integers(texts)] = words
    return ids, lengths


def save(
    folder: Path,
    model: ModelSettings,
    tensors: dict[str, NDArray[Any]],
    storage: Storage = "float32",
) -> Path:
    """Write the two files of a saved model that hold its network."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = quantize(tensors, storage)
    save_file(stored, folder / WEIGHTS)
    write_onnx(folder, model, stored)
    return folder


def run_onnx_file(folder: Path, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
    """Return the logits of ``model.onnx`` as any other program with ONNX Runtime computes them."""
    session = onnxruntime.InferenceSession(str(folder / GRAPH))
    logits: NDArray[np.float32] = session.run(["logits"], {"ids": ids, "lengths": lengths})[0]
    return logits


def load_engine(folder: Path, model: ModelSettings, *, compiled: bool = True) -> OnnxEngine:
    """Return the ONNX engine of the network that ``save`` wrote."""
    tensors = read_tensors(folder / WEIGHTS)
    return OnnxEngine(model, tensors, compiled=compiled)
