"""The saved folder: what is in it, how it is written, how it is read.

    config.json         format, settings, labels, data, versions, and a checksum of each other file
    model.safetensors   the network's tensors, under the names of its state dict
    tokenizer.json      how a text is cut into words
    vocab.txt           the words, one a line; the line number is the id
    model.onnx          the graph that predicts without torch; its matrices lie in model.safetensors
    metrics.json        scores, learning curve, the rivals' scores
    README.md           the model card

Nothing in it is ever executed: JSON, text, tensors and a graph of known operators.
"""

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from lamatext import __version__
from lamatext.config import Recipe
from lamatext.data.encode import TextEncoder
from lamatext.data.subwords import SubwordEncoder
from lamatext.data.tokens import make_tokenizer
from lamatext.data.vocab import Vocabulary
from lamatext.errors import ModelError, require
from lamatext.explain.head import ClassifierHead
from lamatext.runtime.predictor import Encoder, Predictor
from lamatext.runtime.weights import Storage, restored, stored_as

if TYPE_CHECKING:
    from torch import nn

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
VOCAB, GRAPH, METRICS, CARD = "vocab.txt", "model.onnx", "metrics.json", "README.md"
FILES = (CONFIG, WEIGHTS, TOKENIZER, VOCAB, GRAPH, METRICS, CARD)
CHECKPOINT = "checkpoint.safetensors"  # beside them, while a run is unfinished

Tensors = dict[str, NDArray[Any]]
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A trained model as plain data."""

    recipe: Recipe
    labels: list[str] | list[int]
    tensors: Tensors  # float32
    encoder: Encoder
    facts: Facts = field(default_factory=dict)  # data, versions, parameters, training
    metrics: Facts = field(default_factory=dict)


def save_model(
    folder: str | PathLike[str], model: SavedModel, *, storage: Storage = "float32"
) -> Path:
    """Write the folder; until the last file is in place an older model in it stays as it was."""
    from lamatext.card import model_card
    from lamatext.runtime.graph import NOT_HELD
    from lamatext.runtime.onnx_file import write_onnx

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / ".unfinished"
    unfinished.mkdir(exist_ok=True)
    stored = stored_as(model.tensors, storage)
    save_file(stored, unfinished / WEIGHTS)
    _write_encoder(unfinished, model)
    _write_json(unfinished / METRICS, model.metrics)
    if model.recipe.model.name not in NOT_HELD:
        write_onnx(unfinished, model.recipe.model, stored)
    config = _config(model, storage)
    (unfinished / CARD).write_text(model_card(config, model.metrics), encoding="utf-8")
    config["files"] = {path.name: _checksum(path) for path in sorted(unfinished.iterdir())}
    _write_json(unfinished / CONFIG, config)
    _move_into_place(unfinished, folder)
    return folder


def load_config(folder: str | PathLike[str]) -> Facts:
    """What ``config.json`` says, checked: a known format, and every file whole."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder. Expected one written by lamatext train.")
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(f"{folder}: no {CONFIG}, so it is not a saved model of lamatext.")
    try:
        config: Facts = json.loads(path.read_text(encoding="utf-8"))
        version = config["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: not the config of a saved model. Train it again.") from error
    if version != FORMAT:
        raise ModelError(
            f"{folder}: saved in format {version} by lamatext {config.get('lamatext', '?')}; this "
            f"version reads format {FORMAT}. Upgrade lamatext, or train it again."
        )
    _check_files(folder, config.get("files", {}))
    return config


def _check_files(folder: Path, checksums: Mapping[str, int]) -> None:
    for name, expected in checksums.items():
        if name == CARD:
            continue  # people edit it
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: {name} is missing. Save or copy the whole folder again.")
        if _checksum(folder / name) != expected:
            raise ModelError(
                f"{folder / name}: damaged, or of another save than {CONFIG}. "
                "Copy the folder again, or finish the run with --resume."
            )


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """The whole saved model as plain data."""
    folder = Path(folder)
    config = load_config(folder)
    recipe = _recipe(folder, config)
    return SavedModel(
        recipe=recipe,
        labels=config["labels"],
        tensors=load_tensors(folder),
        encoder=_read_encoder(folder, recipe),
        facts={key: value for key, value in config.items() if key not in _OWN},
        metrics=json.loads((folder / METRICS).read_text(encoding="utf-8")),
    )


def load_tensors(folder: Path) -> Tensors:
    """The network's tensors in float32."""
    try:
        return restored(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS}: cannot be read: {error}.") from error


def load_predictor(folder: str | PathLike[str]) -> Predictor:
    """A predictor on ONNX Runtime; on torch for the systems that have no graph."""
    folder = Path(folder)
    config = load_config(folder)
    recipe = _recipe(folder, config)
    classes, encoder = np.array(config["labels"]), _read_encoder(folder, recipe)
    if (folder / GRAPH).is_file():
        from lamatext.runtime.onnx_engine import OnnxEngine

        return Predictor(OnnxEngine.load(folder), encoder, classes, _read_head(folder))
    from lamatext.runtime.torch_engine import TorchEngine

    return Predictor(TorchEngine(load_network(load_model(folder))), encoder, classes)


def load_network(model: SavedModel) -> "nn.Module":
    """The torch network of a saved model."""
    torch = require("torch", extra="train", purpose=f"the model {model.recipe.model.name}")
    from lamatext.nn.network import build_network

    settings, width = model.recipe.model, model.recipe.text.width
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
        raise ModelError(f"the weights do not fit the config: {error}") from error
    return network.eval()


def folder_size(folder: Path) -> int:
    """Bytes of a saved model."""
    return sum((folder / name).stat().st_size for name in FILES if (folder / name).is_file())


def _recipe(folder: Path, config: Facts) -> Recipe:
    try:
        return Recipe.model_validate(config["recipe"])
    except (KeyError, ValidationError) as error:
        raise ModelError(f"{folder / CONFIG}: its settings cannot be read: {error}") from error


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


def _write_encoder(folder: Path, model: SavedModel) -> None:
    if isinstance(model.encoder, TextEncoder):
        text = model.recipe.text
        facts = text.model_dump(include={"tokenizer", "lower", "rare", "max_words"})
        _write_json(folder / TOKENIZER, facts)
        (folder / VOCAB).write_bytes(
            model.encoder.vocabulary.to_text().encode("utf-8", "surrogatepass")
        )
    elif isinstance(model.encoder, SubwordEncoder):
        (folder / TOKENIZER).write_text(model.encoder.to_json(), encoding="utf-8")


def _read_encoder(folder: Path, recipe: Recipe) -> Encoder:
    if recipe.model.name == "bert":
        return SubwordEncoder.from_json((folder / TOKENIZER).read_text(encoding="utf-8"))
    facts = json.loads((folder / TOKENIZER).read_text(encoding="utf-8"))
    text = (folder / VOCAB).read_bytes().decode("utf-8", "surrogatepass")
    tokenizer = make_tokenizer(facts["tokenizer"], lower=facts["lower"])
    return TextEncoder(tokenizer, Vocabulary.from_text(text), facts["rare"], facts["max_words"])


def _read_head(folder: Path) -> ClassifierHead:
    with safe_open(folder / WEIGHTS, framework="numpy") as file:
        names = [name for name in file.keys() if name.startswith("classifier.")]  # noqa: SIM118
        return ClassifierHead.from_tensors(restored({n: file.get_tensor(n) for n in names}))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


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
