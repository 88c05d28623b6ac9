"""A trained model to a folder and back; ``lamatext.saved.format`` says what lies in it."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from lamatext import __version__
from lamatext.data.subword_encoder import SubwordEncoder
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.tokenizer import make_tokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.errors import ModelError, require
from lamatext.explain.classifier_head import ClassifierHead
from lamatext.explain.occlusion import most_versions
from lamatext.ngrams.model import NgramModel
from lamatext.runtime.predictor import Encoder, Predictor
from lamatext.saved.format import (
    CARD,
    CONFIG,
    FILES,
    FORMAT,
    GRAPH,
    METRICS,
    NGRAMS,
    RENAMED,
    TOKENIZER,
    VOCAB,
    WEIGHTS,
    Facts,
    check_fits,
    checksum,
    load_config,
    ngrams_file,
    read_json,
    recipe_of,
)
from lamatext.saved.quantization import Storage, restored, stored_as
from lamatext.settings import Recipe

if TYPE_CHECKING:
    from torch import nn

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A trained model as plain data."""

    recipe: Recipe
    labels: list[str] | list[int] | list[bool]
    tensors: Tensors  # float32
    encoder: Encoder
    ngrams: NgramModel | None = None
    facts: Facts = field(default_factory=dict)  # data, versions, parameters, training
    metrics: Facts = field(default_factory=dict)


def save_model(
    folder: str | PathLike[str], model: SavedModel, *, storage: Storage = "float32"
) -> Path:
    """Write the folder; the files take their places only when all of them are written."""
    from lamatext.saved.model_card import model_card
    from lamatext.saved.onnx_file import write_onnx
    from lamatext.saved.onnx_graph import NOT_HELD

    folder = Path(folder)
    unfinished = _empty(folder / ".unfinished")
    stored = stored_as(model.tensors, storage)
    (unfinished / WEIGHTS).write_bytes(save(stored))
    if model.ngrams is not None:
        (unfinished / NGRAMS).write_bytes(save(model.ngrams.to_tensors()))
    _write_encoder(unfinished, model)
    _write_json(unfinished / METRICS, model.metrics)
    if model.recipe.model.name not in NOT_HELD:
        write_onnx(unfinished, model.recipe.model, stored)
    config = _config(model, storage)
    (unfinished / CARD).write_text(model_card(config, model.metrics), encoding="utf-8")
    config["files"] = {path.name: checksum(path) for path in sorted(unfinished.iterdir())}
    _write_json(unfinished / CONFIG, config)
    _move_into_place(unfinished, folder)
    return folder


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """The whole saved model as plain data."""
    folder = Path(folder)
    config = load_config(folder)
    recipe = recipe_of(folder, config)
    return SavedModel(
        recipe=recipe,
        labels=config["labels"],
        tensors=load_tensors(folder),
        encoder=_read_encoder(folder, recipe, classes=len(config["labels"])),
        ngrams=_read_ngrams(folder, recipe),
        facts={key: value for key, value in config.items() if key not in _OWN},
        metrics=read_json(folder / METRICS),
    )


def load_tensors(folder: Path) -> Tensors:
    """The network's tensors in float32."""
    try:
        return restored(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelError(f"{folder / WEIGHTS}: cannot be read: {error}.") from error


def load_predictor(folder: str | PathLike[str]) -> Predictor:
    """A predictor on ONNX Runtime; on torch for the systems that have no graph."""
    folder = Path(folder)
    config = load_config(folder)
    recipe = recipe_of(folder, config)
    classes = np.array(config["labels"])
    encoder = _read_encoder(folder, recipe, classes=len(classes))
    if GRAPH in config["files"]:
        from lamatext.runtime.onnx_engine import OnnxEngine

        head, ngrams = _read_head(folder), _read_ngrams(folder, recipe)
        return Predictor(OnnxEngine.load(folder), encoder, classes, head, ngrams)
    require("torch", extra="train", purpose=f"the model {recipe.model.name}")
    from lamatext.runtime.torch_engine import TorchEngine

    engine = TorchEngine(load_network(load_model(folder)))
    return Predictor(engine, encoder, classes, versions=most_versions(recipe.model.name))


def load_network(model: SavedModel) -> "nn.Module":
    """The torch network of a saved model."""
    torch = require("torch", extra="train", purpose=f"the model {model.recipe.model.name}")
    from lamatext.nn.network import build_network

    settings, width = model.recipe.model, model.recipe.text.vector_width
    network: nn.Module
    if settings.name == "bert":
        from lamatext.nn.pretrained import rebuild

        network = rebuild(model.facts["architecture"], classes=len(model.labels))
    else:
        rows = len(model.tensors["embedding.weight"])
        network = build_network(settings, vocabulary=rows, width=width, classes=len(model.labels))
    try:
        network.load_state_dict({k: torch.from_numpy(v) for k, v in model.tensors.items()})
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"the weights do not fit the config: {reason} Train it again.") from error
    return network.eval()


def add_metrics(folder: Path, found: Mapping[str, Any]) -> None:
    """Keep further scores with a saved model, and tell them in its card."""
    from lamatext.atomic_write import write_text
    from lamatext.saved.model_card import model_card

    config = load_config(folder)
    metrics = {**read_json(folder / METRICS), **found}
    write_text(folder / METRICS, _json(metrics))
    write_text(folder / CARD, model_card(config, metrics))
    config["files"] |= {name: checksum(folder / name) for name in (METRICS, CARD)}
    write_text(folder / CONFIG, _json(config))


def _config(model: SavedModel, storage: Storage) -> Facts:
    return {
        "format": FORMAT,
        "lamatext": __version__,
        "recipe": model.recipe.model_dump(),
        "labels": model.labels,
        "storage": storage,
        **model.facts,
    }


_OWN = {"format", "lamatext", "recipe", "labels", "storage", "files"}


_READING = {
    "tokenizer",
    "lowercase",
    "rare_words",
    "max_words",
    "last_words",
}  # what decides how a text is read


def _write_encoder(folder: Path, model: SavedModel) -> None:
    if isinstance(model.encoder, TextEncoder):
        text = model.recipe.text
        facts = text.model_dump(include=_READING)
        _write_json(folder / TOKENIZER, facts)
        (folder / VOCAB).write_bytes(
            model.encoder.vocabulary.to_text().encode("utf-8", "surrogatepass")
        )
    elif isinstance(model.encoder, SubwordEncoder):
        (folder / TOKENIZER).write_text(model.encoder.to_json(), encoding="utf-8")


def _read_encoder(folder: Path, recipe: Recipe, *, classes: int) -> Encoder:
    if recipe.model.name == "bert":
        return SubwordEncoder.from_json((folder / TOKENIZER).read_text(encoding="utf-8"))
    renamed = RENAMED["text"]
    facts = {renamed.get(k, k): v for k, v in read_json(folder / TOKENIZER).items()}
    if unknown := facts.keys() - _READING:
        raise ModelError(
            f"{folder / TOKENIZER}: {min(unknown)} is not known to this version. Upgrade lamatext."
        )
    try:
        text = (folder / VOCAB).read_bytes().decode("utf-8", "surrogatepass")
        tokenizer = make_tokenizer(facts["tokenizer"], lower=facts["lowercase"])
        limits = facts["rare_words"], facts["max_words"], facts.get("last_words", 0)
    except (OSError, UnicodeDecodeError, KeyError) as error:
        raise ModelError(f"{folder}: {TOKENIZER} or {VOCAB} cannot be read: {error}.") from error
    vocabulary = Vocabulary.from_text(text)
    check_fits(folder, recipe, vocabulary=len(vocabulary), classes=classes)
    return TextEncoder(tokenizer, vocabulary, *limits)


def _read_ngrams(folder: Path, recipe: Recipe) -> NgramModel | None:
    path = ngrams_file(folder)
    if not path.is_file():
        return None
    try:
        return NgramModel.from_tensors(recipe.ngrams, load_file(path))
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelError(f"{path}: cannot be read: {error}.") from error


def _read_head(folder: Path) -> ClassifierHead:
    with safe_open(folder / WEIGHTS, framework="numpy") as file:
        names = [name for name in file.keys() if name.startswith("classifier.")]  # noqa: SIM118
        return ClassifierHead.from_tensors(restored({n: file.get_tensor(n) for n in names}))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(_json(value), encoding="utf-8")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _empty(folder: Path) -> Path:
    """The folder, made anew: a save that was killed may have left files in it."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ModelError(f"{folder.parent}: cannot be written: {error.strerror}.") from error
    return folder


def _move_into_place(unfinished: Path, folder: Path) -> None:
    """Replace the old files one by one, the config last: it vouches for all the others."""
    new = {path.name for path in unfinished.iterdir()}
    for name in set(FILES) - new:
        (folder / name).unlink(missing_ok=True)
    for name in sorted(new, key=lambda name: name == CONFIG):
        with (unfinished / name).open("rb") as written:
            os.fsync(written.fileno())
        (unfinished / name).replace(folder / name)
    unfinished.rmdir()
