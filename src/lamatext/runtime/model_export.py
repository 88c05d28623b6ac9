"""Export a saved model to another folder or to one ONNX file, and verify the export."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.atomic_write import replace_atomically
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import FIRST_WORD
from lamatext.errors import ModelError
from lamatext.ngrams.hashing import count_ngrams
from lamatext.ngrams.model import NgramModel
from lamatext.runtime.onnx_engine import open_session
from lamatext.runtime.parity import Parity, measure_parity, random_texts
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import (
    CONFIG,
    FILES,
    GRAPH,
    STAGING,
    folder_size,
    load_config,
    model_hash,
    tokenizer_settings,
)
from lamatext.saved.model_io import SavedModel, load_model, load_network, save_model
from lamatext.saved.onnx_full_model import build_full_graph
from lamatext.saved.quantization import Storage, quantize

FOLDER_TOLERANCE: dict[Storage, float] = {"float32": 1e-5, "float16": 2e-2, "int8": 0.2}
"""Largest allowed ``Parity.difference`` of an exported folder, by the storage of its weights."""
ONNX_TOLERANCE = 1e-5
"""Largest allowed difference of a probability if an ONNX export does not change the storage."""


@dataclass(frozen=True, slots=True)
class FolderExport:
    """Result of a folder export: file sizes and parity with the original model."""

    folder: Path
    storage: Storage
    bytes_before: int  # see ``folder_size``
    bytes_after: int
    parity: Parity


def export_folder(folder: Path, out: Path, *, storage: Storage | None = None) -> FolderExport:
    """Export a saved model to a new folder and verify the export against the original.

    Args:
        folder: the saved model.
        out: a folder that does not exist, is empty, or holds an interrupted export.
        storage: storage of the exported weights; None keeps that of the saved model.

    Raises:
        ModelError: the export differs by more than the rounding of its weights explains; ``out`` is
            then removed.
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
        if not parity.difference <= FOLDER_TOLERANCE[storage]:  # also if it is NaN
            raise ModelError(
                f"{out}: the exported model differs from the original by {parity.difference:.1e} "
                f"on {parity.texts} texts; {storage} weights explain "
                f"{FOLDER_TOLERANCE[storage]:g}. The export was removed. Export with float32 "
                "weights; if that fails too, report it."
            )
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return FolderExport(out, storage, folder_size(folder), folder_size(out), parity)


def check_export_folder(out: Path) -> None:
    """Check that an export folder does not exist, is empty or holds an interrupted export."""
    if out.exists() and not _is_free(out):
        raise ModelError(f"{out}: already exists. Name a new or an empty folder for the export.")


def _is_free(out: Path) -> bool:
    """Return whether an export folder is empty or holds an interrupted export."""
    if not out.is_dir():
        return False
    names = {path.name for path in out.iterdir()}
    return not names or (STAGING in names and names <= {STAGING, *FILES} - {CONFIG})


def _reference(folder: Path, model: SavedModel) -> Predictor:
    """Load the original model, in PyTorch if it is installed, to compare the export with it."""
    original = Predictor.load(folder)
    if find_spec("torch") is None:
        return original
    from lamatext.runtime.torch_engine import TorchEngine

    return replace(original, engine=TorchEngine(load_network(model)))


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """Result of an ONNX export: the file, its size and its difference from the original model."""

    file: Path
    bytes: int
    texts: int
    difference: float  # largest, between the probabilities of the ONNX file and of the predictor


def export_onnx(folder: Path, file: Path, *, storage: Storage | None = None) -> OnnxExport:
    """Export a full model to one ONNX file and verify its predictions on random texts.

    Args:
        folder: the saved model.
        file: the file to write.
        storage: storage of the weights; None keeps that of the saved model.

    Raises:
        ModelError: the model runs in PyTorch only, or the probabilities of the ONNX model are not
            finite or, if ``storage`` does not change the weights, differ from the predictor's by
            more than rounding errors. The file is not written.
    """
    config, model = load_config(folder), load_model(folder)
    if not isinstance(model.encoder, TextEncoder):
        raise ModelError(f"{folder}: {model.recipe.model.name} has no ONNX graph.")
    words = model.encoder.vocabulary.words
    tables = () if model.ngrams is None else model.ngrams.tables
    thresholds = model.thresholds
    metadata = {
        "labels": model.labels,
        "tokenizer": tokenizer_settings(folder, config),
        "vocabulary": words,
        "ngrams": [{"words": t.spec.words, "characters": t.spec.chars} for t in tables],
        "thresholds": None if thresholds is None else thresholds.values.tolist(),
        "model_hash": model_hash(folder, config),
    }
    tensors = quantize(model.tensors, storage or config["storage"])
    content = build_full_graph(
        model.recipe.model,
        tensors,
        model.ngrams,
        metadata,
        multi_label=thresholds is not None,
        label_noise=config.get("label_noise", 0.0),
    )
    texts = ["", *random_texts(words[FIRST_WORD:])]
    difference = _difference(content, Predictor.load(folder), texts)
    if not math.isfinite(difference):
        raise ModelError(
            f"{file}: some probabilities of the ONNX model are not finite. It was not written; "
            "please report this."
        )
    keeps_weights = storage in (None, config["storage"])
    if keeps_weights and difference > ONNX_TOLERANCE:
        raise ModelError(
            f"{file}: a probability of the ONNX model differs by {difference:.1e} from the "
            f"predictor's; {ONNX_TOLERANCE:g} is allowed. It was not written; please report this."
        )
    with replace_atomically(file) as temporary:
        temporary.write_bytes(content)
    return OnnxExport(file, len(content), len(texts), difference)


def onnx_inputs(
    encoder: TextEncoder, ngrams: NgramModel | None, texts: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Encode texts as inputs of an exported ONNX file (word ids, lengths, n-gram counts).

    The JavaScript in ``views/static`` (``tokens.js``, ``ngrams.js``) computes the same ids and
    n-gram keys without Python.
    """
    words = [encoder.tokenizer.words(text) for text in texts]
    ids, lengths = encoder.encode_words(words).pad(np.arange(len(texts)))
    inputs: dict[str, NDArray[Any]] = {"ids": ids, "lengths": lengths}
    for number, table in enumerate(() if ngrams is None else ngrams.tables):
        counted = count_ngrams(words, table.spec)
        owner = np.repeat(np.arange(len(texts), dtype=np.int64), np.diff(counted.offsets))
        inputs[f"ngram_keys_{number}"] = counted.keys.astype(np.int64)
        inputs[f"ngram_counts_{number}"] = counted.counts.astype(np.int32)
        inputs[f"ngram_texts_{number}"] = owner
    return inputs


def _difference(content: bytes, predictor: Predictor, texts: list[str]) -> float:
    session = open_session(content)
    assert isinstance(predictor.encoder, TextEncoder)
    inputs = onnx_inputs(predictor.encoder, predictor.ngrams, texts)
    probabilities = session.run(["probabilities"], inputs)[0]
    return float(np.abs(probabilities - predictor.predict_proba(texts)).max())
