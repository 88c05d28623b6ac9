"""Export a saved model to another folder with other weights, and verify the exported folder."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lamatext.errors import ModelError, require
from lamatext.runtime.engine import Engine
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.runtime.parity import Batch, EngineParity, compare_engines
from lamatext.saved.format import GRAPH, WEIGHTS, load_config
from lamatext.saved.model_io import SavedModel, load_model, load_network, save_model
from lamatext.saved.onnx_export import WITHOUT_GRAPH
from lamatext.saved.quantization import Storage

LENGTHS = (1, 2, 5, 20, 60, 200)  # words of the random texts that the export is verified on
TEXTS = 16  # per length

TOLERANCE: dict[Storage, float] = {"float32": 1e-5, "float16": 2e-2, "int8": 0.2}
"""Largest difference of an ``EngineParity`` that an export may have."""


@dataclass(frozen=True, slots=True)
class FolderExport:
    """Result of exporting a folder: sizes, and parity with the original model."""

    folder: Path
    storage: Storage
    bytes_before: int  # of the files that hold weights
    bytes_after: int
    parity: EngineParity


def export_folder(folder: Path, out: Path, *, storage: Storage | None = None) -> FolderExport:
    """Export a saved model to the folder ``out`` and compare it with the original.

    Args:
        folder: the saved model.
        out: a folder that is empty or does not exist.
        storage: storage of the exported weights; None keeps that of the saved model.

    Raises:
        ModelError: the export differs by more than the storage explains; ``out`` is then removed.
    """
    require("onnx", extra="train", purpose="lamatext export --out")
    storage = storage or load_config(folder)["storage"]
    model = load_model(folder)
    if model.recipe.model.name in WITHOUT_GRAPH:
        raise ModelError(
            f"{folder}: {model.recipe.model.name} has no ONNX graph, it runs in PyTorch only. "
            f"Use `lamatext serve {folder}`, or train one of the other systems."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(f"{out}: already exists. Name a new or an empty folder for the export.")
    try:
        save_model(out, model, storage=storage)
        batches = _random_batches(len(model.tensors["embedding.weight"]))
        parity = compare_engines(OnnxEngine.load(out), _reference_engine(folder, model), batches)
        if not parity.difference <= TOLERANCE[storage]:  # also if it is NaN
            raise ModelError(
                f"{out}: the exported model differs from the original by {parity.difference:.1e} "
                f"on {parity.texts} texts; {storage} weights explain {TOLERANCE[storage]:g}. The "
                "export was removed. Export with float32 weights; if that fails too, report it."
            )
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return FolderExport(out, storage, weight_bytes(folder), weight_bytes(out), parity)


def weight_bytes(folder: Path) -> int:
    """Return the size of an exported folder's files that hold weights: tensors and ONNX graph."""
    files = [folder / WEIGHTS, folder / GRAPH]
    return sum(file.stat().st_size for file in files if file.is_file())


def _reference_engine(folder: Path, model: SavedModel) -> Engine:
    """Return the engine to verify an export against: PyTorch, or without torch the saved graph."""
    if find_spec("torch") is None:
        return OnnxEngine.load(folder)
    from lamatext.runtime.torch_engine import TorchEngine

    return TorchEngine(load_network(model))


def _random_batches(vocabulary: int) -> Iterator[Batch]:
    random = np.random.default_rng(0)
    for words in LENGTHS:
        ids = random.integers(1, vocabulary, (TEXTS, words), dtype=np.int32)
        yield ids, random.integers(1, words + 1, TEXTS, dtype=np.int32)
