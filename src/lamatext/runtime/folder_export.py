"""Export a saved model to another folder with other weights, and verify the exported folder."""

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import FIRST_WORD
from lamatext.errors import ModelError
from lamatext.runtime.parity import Parity, measure_parity, random_texts
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import CONFIG, FILES, GRAPH, STAGING, WEIGHTS, load_config
from lamatext.saved.model_io import SavedModel, load_model, load_network, save_model
from lamatext.saved.quantization import Storage

TOLERANCE: dict[Storage, float] = {"float32": 1e-5, "float16": 2e-2, "int8": 0.2}
"""Largest ``Parity.difference`` that an exported folder may have, by its storage."""


@dataclass(frozen=True, slots=True)
class FolderExport:
    """Result of a folder export, with file sizes and parity with the original model."""

    folder: Path
    storage: Storage
    bytes_before: int  # of the files that hold weights
    bytes_after: int
    parity: Parity


def export_folder(folder: Path, out: Path, *, storage: Storage | None = None) -> FolderExport:
    """Export a saved model to a new folder and verify the export against the original.

    Args:
        folder: the saved model.
        out: a folder that does not exist, is empty, or holds an export that was killed.
        storage: storage of the exported weights; None keeps that of the saved model.

    Raises:
        ModelError: the export differs by more than the storage explains; ``out`` is then removed.
    """
    config = load_config(folder)
    storage = storage or config["storage"]
    model = load_model(folder)
    if GRAPH not in config["files"] or not isinstance(model.encoder, TextEncoder):
        raise ModelError(
            f"{folder}: {model.recipe.model.name} has no ONNX graph, it runs in PyTorch only. "
            f"Use `lamatext serve {folder}`, or train one of the other systems."
        )
    check_export_folder(out)
    texts = random_texts(model.encoder.vocabulary.words[FIRST_WORD:])
    try:
        save_model(out, model, storage=storage)
        parity = measure_parity(Predictor.load(out), _reference(folder, model), texts)
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


def check_export_folder(out: Path) -> None:
    """Raise an error unless an export folder is new, empty or left by a killed export."""
    if out.exists() and not _is_free(out):
        raise ModelError(f"{out}: already exists. Name a new or an empty folder for the export.")


def _is_free(out: Path) -> bool:
    """Return whether an export folder is empty or left over from a killed export."""
    if not out.is_dir():
        return False
    names = {path.name for path in out.iterdir()}
    return not names or (STAGING in names and names <= {STAGING, *FILES} - {CONFIG})


def weight_bytes(folder: Path) -> int:
    """Return the size in bytes of the weights and ONNX graph in a folder, to report on exports."""
    files = [folder / WEIGHTS, folder / GRAPH]
    return sum(file.stat().st_size for file in files if file.is_file())


def _reference(folder: Path, model: SavedModel) -> Predictor:
    """Load the original model (in PyTorch if installed) to compare it with its export."""
    if find_spec("torch") is None:
        return Predictor.load(folder)
    from lamatext.runtime.torch_engine import TorchEngine

    engine = TorchEngine(load_network(model))
    return Predictor(engine, model.encoder, np.array(model.labels), ngrams=model.ngrams)
