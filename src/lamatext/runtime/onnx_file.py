"""The ONNX file of a whole model: its inputs for texts, and its check against ``Predictor``."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from lamatext.runtime.parity import random_texts
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, model_hash, tokenizer_settings
from lamatext.saved.model_io import load_model
from lamatext.saved.onnx_full_model import build_full_graph
from lamatext.saved.quantization import Storage, quantize

TOLERANCE = 1e-5  # largest difference of a probability; float16 and int8 weights are rounded first


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """Result of exporting a full model to an ONNX file, with file size and parity check."""

    file: Path
    bytes: int
    texts: int
    difference: float  # largest, between probabilities of the file and of the predictor


def export_onnx(folder: Path, file: Path, *, storage: Storage | None = None) -> OnnxExport:
    """Export a full model to one ONNX file and verify its predictions on random texts.

    Args:
        folder: the saved model.
        file: the file to write.
        storage: storage of the weights; None keeps that of the saved model.

    Raises:
        ModelError: the model runs in PyTorch only, or the file differs; it is then not written.
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
    if storage in (None, config["storage"]) and not difference <= TOLERANCE:  # also if it is NaN
        raise ModelError(
            f"{file}: a probability of the ONNX model differs by {difference:.1e} from the "
            f"predictor's; {TOLERANCE:g} is allowed. It was not written; please report this."
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
