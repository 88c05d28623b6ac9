"""A saved model written anew in another storage, and compared before it is called done."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lamatext.errors import ModelError
from lamatext.runtime.engine import Engine, Floats, Ids
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.onnx_file import GRAPH_FILE, TENSOR_FILE
from lamatext.saved.quantization import Storage

Batch = tuple[Ids, Ids]  # ids (B, T) and lengths (B,)

TOLERANCE: dict[Storage, float] = {"float32": 1e-5, "float16": 2e-2, "int8": 0.2}
"""How large the difference of a ``Comparison`` may be."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two engines on the same texts."""

    texts: int
    difference: float
    """The largest change of a word's weight, or of a logit as a share of the largest logit."""
    changed: int
    """Texts whose most probable label is another."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote, and how it compares with the model it was made from."""

    folder: Path
    storage: Storage
    bytes_before: int  # of the files that hold weights
    bytes_after: int
    comparison: Comparison


def export(
    folder: Path,
    out: Path,
    save: Callable[[Path], object],
    *,
    reference: Engine,
    batches: Iterable[Batch],
    storage: Storage = "float32",
) -> ExportReport:
    """Write a saved model to ``out`` and compare it with ``reference`` on some texts.

    Args:
        folder: the saved model.
        out: a folder that is empty or not there.
        save: writes that model in ``storage`` to a folder.
        reference: what the texts are compared with: the original in torch.
        batches: the texts.
        storage: how the weights are to lie on disk.

    Raises:
        ModelError: the two differ by more than the storage explains. Then ``out`` is removed.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(f"{out}: already there. Name a new or an empty folder for the export.")
    try:
        save(out)
        comparison = compare(OnnxEngine.load(out), reference, batches)
        if not comparison.difference <= TOLERANCE[storage]:
            raise ModelError(_too_far(out, storage, comparison))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return ExportReport(out, storage, weight_bytes(folder), weight_bytes(out), comparison)


def compare(engine: Engine, reference: Engine, batches: Iterable[Batch]) -> Comparison:
    """How far an engine is from another in its logits and in the weights of the words."""
    texts, difference, changed = 0, 0.0, 0
    for ids, lengths in batches:
        ours, theirs = engine.run(ids, lengths), reference.run(ids, lengths)
        gaps = [difference, _gap(ours.logits, theirs.logits) / _size(theirs.logits)]
        if ours.weights is not None and theirs.weights is not None:
            gaps.append(_gap(ours.weights, theirs.weights))
        difference = float(np.max(gaps))  # NaN stays NaN
        changed += int((ours.logits.argmax(axis=1) != theirs.logits.argmax(axis=1)).sum())
        texts += len(ids)
    return Comparison(texts, difference, changed)


def check_graph(engine: Engine, reference: Engine, batches: Iterable[Batch]) -> float:
    """The largest difference of two engines on some texts."""
    return compare(engine, reference, batches).difference


def weight_bytes(folder: Path) -> int:
    """The bytes of the files of a saved model that hold weights."""
    files = [folder / TENSOR_FILE, folder / GRAPH_FILE]
    return sum(file.stat().st_size for file in files if file.is_file())


def _gap(ours: Floats, theirs: Floats) -> float:
    return float(np.abs(ours - theirs).max())


def _size(logits: Floats) -> float:
    return max(1.0, float(np.abs(logits).max()))


def _too_far(out: Path, storage: Storage, comparison: Comparison) -> str:
    return (
        f"{out}: the exported model differs from the original by {comparison.difference:.1e} on "
        f"{comparison.texts} texts, where {storage} weights explain {TOLERANCE[storage]:g}. "
        "Nothing was kept. Export with float32 weights; if that fails too, report it."
    )
