"""Checking the reasons of a saved model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lamatext.errors import MissingExtraError, require
from lamatext.explain.checked import MOST, check_reasons
from lamatext.explain.faithfulness import Faithfulness
from lamatext.progress import SILENT, Progress
from lamatext.runtime.predictor import Predictor

if TYPE_CHECKING:
    from torch import nn


def checked_reasons(
    folder: Path,
    texts: Sequence[str],
    *,
    most: int = MOST,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Faithfulness:
    """How far the model's reasons hold; with integrated gradients where torch and captum are."""
    return check_reasons(
        Predictor.load(folder),
        texts,
        network=_network(folder, progress),
        most=most,
        seed=seed,
        progress=progress,
    )


def _network(folder: Path, progress: Progress) -> "nn.Module | None":
    from lamatext.store import load_model, load_network

    try:
        for package, extra in (("torch", "train"), ("captum", "explain")):
            require(package, extra=extra, purpose="integrated gradients")
    except MissingExtraError as error:
        progress.note(f"left out: {error}")
        return None
    return load_network(load_model(folder))
