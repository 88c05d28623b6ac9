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

from hardening.base_models import BERT, make_base_models
from hardening.fuzz_target import FindingError, FuzzTarget
from hardening.hostile_folders import Files, HostileFolder, plan_hostile_folder, read_folder
from hardening.mutation import ByteSource
from hardening.node_process import NodeError
from lamatext.errors import ModelError
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, ngrams_file, remembered_layout
from lamatext.views.web_model import describe_model

ROOT = Path(__file__).parents[1]
FORMAT_1 = ROOT / "tests" / "fixtures" / "format-1"
TEXTS = ["a good film , not bad !", "", "привет 😀 東京 unknown words don't " * 20]
PLANS = 40  # seed inputs: random plans of mutations
TENSOR_FILES = ("model.safetensors", "ngrams.safetensors", "wide.safetensors")
TOLERANCE = 1e-3  # of results in JavaScript


def build_target(name: str) -> FuzzTarget:
    """Build a fuzz target of hostile model folders: in Python, or in JavaScript as well.

    Both have the same inputs. The folders of ``bert``, which runs in PyTorch, are a target of their
    own.
    """
    if name == "bert_folder":
        folder = scratch_folder() / "model"
        HostileFolder(bert_files(), {}, set()).write(folder)
        check_model(folder)  # imports torch and transformers before the first input
        return FuzzTarget(name, check_hostile_bert, _plans(), ())
    check = check_web_model if name == "web_model" else check_hostile_folder
    return FuzzTarget(name, check, _plans(), ())


def check_hostile_folder(data: bytes) -> None:
    """Load a hostile model folder and use it."""
    check_model(_write_hostile_folder(data))


def check_hostile_bert(data: bytes) -> None:
    """Load a hostile model folder of bert and use it."""
    check_model(_write_hostile_folder(data, [bert_files()]))


def _write_hostile_folder(data: bytes, bases: list[Files] | None = None) -> Path:
    source = ByteSource(data)
    folder = scratch_folder() / "model"
    plan_hostile_folder(source.choice(bases or base_folders()), source).write(folder)
    return folder


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
    """Use a hostile folder in Python, and in the web page's JavaScript if it can be described.

    A model that Python accepts gives equal results in JavaScript. If Python rejects a tensor, so
    does JavaScript. Other files reach JavaScript only as a description that Python has made; what
    it makes of the description of a rejected folder does not matter if it throws nothing unnamed.
    """
    folder = _write_hostile_folder(data)
    try:
        check_model(folder)
    except ModelError as error:
        _require_rejected_tensors(folder, error)
        raise
    description = describe_model(folder)  # raises ModelError if it does not run in a page
    predictor = Predictor.load(folder)
    for text in TEXTS:
        try:
            answer = _explain_in_javascript(folder, description, text)
        except ModelError as error:
            raise FindingError(f"only JavaScript rejects the model: {error}") from error
        expected = predictor.explain(text)
        largest = max(1.0, *np.abs(expected.base), *np.abs(expected.contributions).ravel())
        for name, scale in (("probabilities", 1.0), ("contributions", largest)):
            difference = _difference(answer[name], getattr(expected, name))
            if not difference <= TOLERANCE * scale:  # large logits are rounded to float32
                raise FindingError(f"JavaScript gives other {name}: {difference}")


def _require_rejected_tensors(folder: Path, rejected: ModelError) -> None:
    """Check that JavaScript rejects the tensors that Python rejects."""
    try:
        description = describe_model(folder)
        _explain_in_javascript(folder, description, TEXTS[0])
    except ModelError:
        return
    if any(f"{name}:" in str(rejected) for name in TENSOR_FILES):
        raise FindingError(f"only Python rejects the model: {rejected}")


def _explain_in_javascript(folder: Path, description: dict[str, Any], text: str) -> dict[str, Any]:
    """Explain a text in node; raise ModelError if JavaScript rejects the model by that name."""
    from hardening.text_targets import node

    files = {"model": folder / TENSOR_FILES[0]}
    ngrams = ngrams_file(folder, load_config(folder))
    if ngrams is not None:
        files["ngrams"] = ngrams
    tensors = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    try:
        answer: dict[str, Any] = node().call(
            "explain", {"description": description, "text": text, **tensors}
        )
    except NodeError as error:
        if error.name == "ModelError":
            raise ModelError(str(error)) from error
        raise FindingError(f"JavaScript threw {error}") from error
    return answer


def _difference(found: list[Any], expected: NDArray[np.floating[Any]]) -> float:
    """Return the largest difference of numbers in JavaScript; infinite if their shapes differ."""
    values = np.array(found, np.float64)
    if values.shape != expected.shape:
        return float("inf")
    return float(np.abs(values - expected).max(initial=0))


@cache
def base_files() -> dict[str, Files]:
    """Make the base models and read their files, by name."""
    return {folder.name: read_folder(folder) for folder in make_base_models(_base_root())}


@cache
def base_folders() -> list[Files]:
    """Return the files of all base models, the folder of format 1 included."""
    return [*base_files().values(), read_folder(FORMAT_1)]


@cache
def bert_files() -> Files:
    """Make the base model bert and read its files."""
    return read_folder(make_base_models(_base_root(), BERT)[0])


@cache
def scratch_folder() -> Path:
    """Create the folder for hostile model folders."""
    return Path(tempfile.mkdtemp(prefix="folders-"))


@cache
def _base_root() -> Path:
    return Path(tempfile.mkdtemp(prefix="bases-"))


def _plans() -> list[bytes]:
    draw = random.Random("model_folder")
    return [draw.randbytes(draw.randint(8, 40)) for _ in range(PLANS)]
