"""Fuzz targets of the model folder: load a hostile folder, predict and explain a few texts."""

import base64
import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardening.base_models import make_base_models
from hardening.fuzz_target import FindingError, FuzzTarget
from hardening.hostile_folders import (
    Files,
    HostileFolder,
    plan_hostile_folder,
    read_folder,
    recompute_checksums,
)
from hardening.mutation import ByteSource
from hardening.node_process import NodeError
from lamatext.errors import ModelError
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, remembered_layout

ROOT = Path(__file__).parents[1]
FORMAT_1 = ROOT / "tests" / "fixtures" / "format-1"
TEXTS = ["a good film , not bad !", "", "привет 😀 東京 unknown words don't " * 20]
PLANS = 40  # seed inputs: random plans of mutations
TENSOR_FILES = ("model.safetensors", "ngrams.safetensors")
TOLERANCE = 1e-3  # of a probability in JavaScript


def build_target(name: str) -> FuzzTarget:
    """Build the fuzz target of hostile model folders."""
    return FuzzTarget(name, check_hostile_folder, _plans(name), ())


def build_web_target() -> FuzzTarget:
    """Build the fuzz target of hostile tensors in the web page's JavaScript."""
    return FuzzTarget("web_model", check_web_model, _plans("web_model"), ())


def check_hostile_folder(data: bytes) -> None:
    """Load a hostile model folder and use it."""
    source = ByteSource(data)
    folder = scratch_folder() / "model"
    plan_hostile_folder(source.choice(base_folders()), source).write(folder)
    check_model(folder)


def check_model(folder: Path) -> None:
    """Load a model folder, predict and explain; every number must be finite."""
    predictor = Predictor.load(folder)
    remembered_layout(load_config(folder))
    _check_probabilities(predictor)
    for text in TEXTS[:2]:
        explanation = predictor.explain(text)
        _check_finite("a contribution", explanation.contributions)
        json.loads(explanation.to_json())
    _check_finite("an embedding", predictor.transform(TEXTS[:1]))
    if predictor.validation is not None:
        _check_finite("an outlier score", predictor.assess(TEXTS).outlier_scores)


def _check_probabilities(predictor: Predictor) -> None:
    probabilities, labels = predictor.predict_proba(TEXTS), predictor.predict(TEXTS).tolist()
    if probabilities.shape != (len(TEXTS), len(predictor.classes_)):
        raise FindingError(f"probabilities of another shape: {probabilities.shape}")
    _check_finite("a probability", probabilities)
    if probabilities.min() < 0 or probabilities.max() > 1 + 1e-3:
        raise FindingError(f"probabilities out of range: {probabilities}")
    if predictor.thresholds is not None:  # several labels
        return
    if abs(probabilities.sum(axis=1) - 1).max() > 1e-3:
        raise FindingError(f"probabilities that do not sum to 1: {probabilities}")
    if not set(labels) <= set(predictor.classes_.tolist()):
        raise FindingError("a predicted label is not one of the model's labels")


def _check_finite(name: str, values: NDArray[np.floating[Any]]) -> None:
    if not np.isfinite(values).all():
        raise FindingError(f"{name} is not finite")


def check_web_model(data: bytes) -> None:
    """Explain a text with hostile tensors in JavaScript and in Python.

    Both must accept or both reject the model with a named error, with equal probabilities.
    """
    from hardening.text_targets import node

    source = ByteSource(data)
    base = source.choice(sorted(web_descriptions()))
    planned = plan_hostile_folder(base_files()[base], source).files
    tensors = {name: planned.get(name, b"") for name in TENSOR_FILES if name in base_files()[base]}
    value = {
        "description": web_descriptions()[base],
        "text": TEXTS[0],
        **{name.split(".")[0]: base64.b64encode(data).decode() for name, data in tensors.items()},
    }
    python_error = None
    try:
        expected = _explained_by_python(base, tensors)
    except ModelError as error:
        python_error = error
    try:
        answer = node().call("explain", value)
    except NodeError as error:
        if error.name != "ModelError":
            raise FindingError(f"JavaScript threw {error}") from error
        if python_error is None:
            raise FindingError(f"only JavaScript rejects the model: {error}") from error
        raise python_error from error
    if python_error is not None:
        raise FindingError(f"only Python rejects the model: {python_error}")
    difference = abs(np.array(answer["probabilities"], np.float64) - expected).max()
    if not difference <= TOLERANCE:
        raise FindingError(f"JavaScript gives other probabilities: {difference}")


def _explained_by_python(base: str, tensors: Files) -> NDArray[np.float32]:
    files = {**base_files()[base], **tensors}
    folder = scratch_folder() / "web"
    recompute_checksums(files)
    HostileFolder(files, {}, set()).write(folder)
    return Predictor.load(folder).explain(TEXTS[0]).probabilities


@cache
def base_files() -> dict[str, Files]:
    """Make the base models and read their files, by name."""
    return {folder.name: read_folder(folder) for folder in make_base_models(_base_root())}


@cache
def base_folders() -> list[Files]:
    """Return the files of all base models, the folder of format 1 included."""
    return [*base_files().values(), read_folder(FORMAT_1)]


@cache
def web_descriptions() -> dict[str, object]:
    """Return the description that the web page gets of each base model that runs in it."""
    from lamatext.views.web_model import describe_model

    supported = [name for name in base_files() if name not in ("blocks", "phrases")]
    return {name: describe_model(_base_root() / name) for name in supported}


@cache
def scratch_folder() -> Path:
    """Create the folder for hostile model folders."""
    return Path(tempfile.mkdtemp(prefix="folders-"))


@cache
def _base_root() -> Path:
    return Path(tempfile.mkdtemp(prefix="bases-"))


def _plans(name: str) -> list[bytes]:
    draw = random.Random(name)
    return [draw.randbytes(draw.randint(8, 40)) for _ in range(PLANS)]
