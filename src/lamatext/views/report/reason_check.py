"""Checking the reasons of a saved model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lamatext.errors import MissingExtraError, require
from lamatext.explain.faithfulness import Faithfulness
from lamatext.explain.faithfulness_check import MOST, check_reasons
from lamatext.explain.occlusion import MOST as VERSIONS
from lamatext.progress import SILENT, Progress
from lamatext.runtime.predictor import Predictor

if TYPE_CHECKING:
    from torch import nn


FEWEST = 30  # texts, where a Transformer reads each of them many times


def checked_reasons(
    folder: Path,
    texts: Sequence[str],
    *,
    most: int | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Faithfulness:
    """How far the model's reasons hold; with integrated gradients where torch and captum are.

    Args:
        folder: a saved model.
        texts: what it is checked on; no labels are needed.
        most: of more texts, this many are drawn; None is as many as the model reads in minutes.
        seed: of every draw.
        progress: told what is being done.
    """
    predictor = Predictor.load(folder)
    return check_reasons(
        predictor,
        texts,
        network=_network(folder, progress),
        most=most or (FEWEST if is_slow(predictor) else MOST),
        seed=seed,
        progress=progress,
    )


def is_slow(predictor: Predictor) -> bool:
    """Whether it is a Transformer, which reads a text a hundred times slower than the others."""
    return predictor.max_occlusions < VERSIONS


def _network(folder: Path, progress: Progress) -> "nn.Module | None":
    from lamatext.saved.model_io import load_model, load_network

    try:
        for package, extra in (("torch", "train"), ("captum", "explain")):
            require(package, extra=extra, purpose="integrated gradients")
    except MissingExtraError as error:
        progress.note(f"left out: {error}")
        return None
    return load_network(load_model(folder))
