"""Save a trained model to a folder and load it again; ``saved/format.py`` lists the files.

``config.json`` also lists the model's ancestors: the models whose training it continued. For each
ancestor, it records the hash, the training data and how that data was split, so that the same test
texts can be selected again.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from lamatext import __version__
from lamatext.atomic_write import locked_folder, write_text
from lamatext.data.text_encoder import Encoder, SubwordEncoder, TextEncoder
from lamatext.data.tokenizer import make_tokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.errors import LamatextError, ModelError, require
from lamatext.label_thresholds import LabelForm, LabelThresholds
from lamatext.ngrams.model import NgramModel
from lamatext.outliers import ValidationStatistics
from lamatext.saved.format import (
    CARD,
    CONFIG,
    FILES,
    FORMAT,
    METRICS,
    NGRAMS,
    STAGING,
    TOKENIZER,
    TOKENIZER_SETTINGS,
    VOCAB,
    WEIGHTS,
    Config,
    checksum,
    data_layout,
    json_text,
    load_config,
    load_metrics,
    ngrams_file,
    read_json,
    saved_recipe,
    tokenizer_settings,
)
from lamatext.saved.quantization import Storage, dequantize, quantize
from lamatext.saved.safetensors_layout import read_tensors
from lamatext.settings import Recipe

if TYPE_CHECKING:
    from torch import nn

from lamatext.data.read_options import Layout

_WRITTEN_BY_SAVE = {
    "format", "lamatext", "saved", "recipe", "labels", "multi_label", "storage", "files",
}  # fmt: skip

_DATA_FACTS = (
    *("source", "texts", "fingerprint", "training_texts", "validation_texts", "test_texts"),
    *("folds", "layout", "test_source", "test_fingerprint", "validation_fingerprint"),
    *("left_out_rows", "moved_rows", "sketch"),
)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Contents of a saved model (settings, labels, tensors, text encoder and metrics).

    ``save_model`` writes it and ``load_model`` returns it.
    """

    recipe: Recipe
    labels: list[str] | list[int] | list[bool]
    tensors: dict[str, NDArray[Any]]  # of the network, float32
    encoder: Encoder
    ngrams: NgramModel | None = None
    thresholds: LabelThresholds | None = None  # None: one label per text
    facts: Config = field(default_factory=dict)  # data, versions, parameters, training
    metrics: Config = field(default_factory=dict)


def save_model(
    folder: str | PathLike[str], model: SavedModel, *, storage: Storage = "float32"
) -> Path:
    """Save a trained model to a folder, replacing any earlier model in it.

    The files are written to a temporary folder first, then moved over those of the earlier model.

    Raises:
        ModelError: the folder cannot be written, or another process deletes its files.
        ConfigError: another process is saving a model there.
    """
    folder = Path(folder)
    try:
        with _staging_folder(folder) as staging:
            _write_files(staging, model, storage)
            _replace_files(staging, folder)
    except FileNotFoundError as error:
        raise ModelError(
            f"{folder}: its files vanished while the model was saved. Another process deletes them "
            "or saves a model there, too: save into another folder."
        ) from error
    return folder


def _write_files(staging: Path, model: SavedModel, storage: Storage) -> None:
    from lamatext.saved.model_card import model_card
    from lamatext.saved.onnx_export import WITHOUT_GRAPH, write_onnx

    stored = quantize(model.tensors, storage)
    (staging / WEIGHTS).write_bytes(save(stored))
    if model.ngrams is not None:
        (staging / NGRAMS).write_bytes(save(model.ngrams.to_tensors()))
    _write_encoder(staging, model)
    (staging / METRICS).write_text(json_text(model.metrics), encoding="utf-8")
    if model.recipe.model.name not in WITHOUT_GRAPH:
        write_onnx(staging, model.recipe.model, stored)
    config: Config = {
        "format": FORMAT,
        "lamatext": __version__,
        "saved": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "recipe": model.recipe.model_dump(),
        "labels": model.labels,
        **({} if model.thresholds is None else {"multi_label": _threshold_json(model.thresholds)}),
        "storage": storage,
        **model.facts,
    }
    (staging / CARD).write_text(model_card(config, model.metrics), encoding="utf-8")
    config["files"] = {path.name: checksum(path) for path in sorted(staging.iterdir())}
    (staging / CONFIG).write_text(json_text(config), encoding="utf-8")


def add_metrics(folder: Path, metrics: Mapping[str, Any]) -> None:
    """Add metrics to a saved model on disk and update its model card and checksums.

    The model can be loaded at any time, even after a crash: while ``metrics.json`` is being
    replaced, ``config.json`` lists no checksum for it.
    """
    from lamatext.saved.model_card import model_card

    config = load_config(folder)
    config["recipe"] = saved_recipe(folder, config).model_dump()
    merged = {**load_metrics(folder), **metrics}
    stored = read_json(folder / CONFIG)  # unlike `config`, with the setting names of its format
    card = model_card(config, merged)
    unlisted = {name: crc for name, crc in stored["files"].items() if name != METRICS}
    write_text(folder / CONFIG, json_text(stored | {"files": unlisted}))
    _write_listed_files(folder, stored, {METRICS: json_text(merged), CARD: card})


def save_threshold(folder: Path, threshold: Mapping[str, float]) -> None:
    """Store a saved model's confidence threshold in its config and model card.

    ``config.json`` is replaced atomically, so the model can be loaded at any time.
    """
    from lamatext.saved.model_card import model_card

    config = load_config(folder) | {"unsure": dict(threshold)}
    config["recipe"] = saved_recipe(folder, config).model_dump()
    stored = read_json(folder / CONFIG) | {"unsure": dict(threshold)}
    _write_listed_files(folder, stored, {CARD: model_card(config, load_metrics(folder))})


def _write_listed_files(folder: Path, config: Config, texts: Mapping[str, str]) -> None:
    """Write the given files of a saved model, then update their checksums in ``config.json``."""
    for name, text in texts.items():
        write_text(folder / name, text)
    config["files"] |= {name: checksum(folder / name) for name in texts}
    write_text(folder / CONFIG, json_text(config))


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """Load a complete saved model from its folder, with tensors converted to float32."""
    folder = Path(folder)
    config = load_config(folder)
    recipe = saved_recipe(folder, config)
    encoder = load_encoder(folder, config, recipe)
    tensors = load_tensors(folder, recipe, encoder, classes=len(config["labels"]))
    return SavedModel(
        recipe=recipe,
        labels=config["labels"],
        tensors=dequantize(tensors),
        encoder=encoder,
        ngrams=load_ngrams(folder, config, recipe),
        thresholds=saved_thresholds(config),
        facts={key: value for key, value in config.items() if key not in _WRITTEN_BY_SAVE},
        metrics=load_metrics(folder),
    )


def load_tensors(
    folder: Path, recipe: Recipe, encoder: Encoder, *, classes: int
) -> dict[str, NDArray[Any]]:
    """Load and validate the network's tensors from the folder of a saved model.

    They are returned as stored, without dequantization. The tensor shapes of ``bert`` are checked
    later, by ``load_network``.
    """
    from lamatext.saved.network_tensors import read_network_tensors, read_usable_tensors

    if not isinstance(encoder, TextEncoder):
        return read_usable_tensors(folder)
    words = len(encoder.vocabulary)
    return read_network_tensors(folder, recipe, vocabulary=words, classes=classes)


def load_network(model: SavedModel) -> "nn.Module":
    """Build the PyTorch network of a saved model with its trained weights."""
    torch = require("torch", extra="train", purpose=f"the model {model.recipe.model.name}")
    from lamatext.nn.network import build_network

    settings, width = model.recipe.model, model.recipe.text.vector_width
    network: nn.Module
    if settings.name == "bert":
        with torch.device("meta"):  # takes no memory
            _check_shapes(_pretrained_network(model), model.tensors)
        network = _pretrained_network(model)
    else:
        rows = len(model.tensors["embedding.weight"])
        network = build_network(settings, vocabulary=rows, width=width, classes=len(model.labels))
        _check_shapes(network, model.tensors)
    network.load_state_dict({name: torch.tensor(t) for name, t in model.tensors.items()})
    return network.eval()


def _pretrained_network(model: SavedModel) -> "nn.Module":
    """Rebuild the network of a saved ``bert`` model from its config, with random weights."""
    from lamatext.nn.pretrained import rebuild

    try:
        architecture = model.facts["architecture"]
        return rebuild(architecture, classes=len(model.labels), max_layers=len(model.tensors))
    except Exception as error:  # the library transformers checks hardly any value
        raise ModelError(
            f"the architecture in the config cannot be built: {type(error).__name__}: {error}. "
            "Copy the folder again."
        ) from error


def _check_shapes(network: "nn.Module", tensors: Mapping[str, NDArray[Any]]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise ModelError(
                f"the weights do not match the config: {name} is {found.get(name, 'missing')}, "
                f"expected {expected.get(name, 'no such tensor')}. Train the model again."
            )


def load_encoder(folder: Path, config: Config, recipe: Recipe) -> Encoder:
    """Load the text encoder of a saved model from ``tokenizer.json`` and ``vocab.txt``."""
    if recipe.model.name == "bert":
        return _load_subword_encoder(folder / TOKENIZER)
    if VOCAB not in config["files"]:
        raise ModelError(f"{folder / CONFIG}: does not list {VOCAB}. Copy the folder again.")
    settings = tokenizer_settings(folder, config)
    try:
        text = (folder / VOCAB).read_bytes().decode("utf-8", "surrogatepass")
        tokenizer = make_tokenizer(
            settings["tokenizer"],
            lower=settings["lowercase"],
            version=settings["tokenizer_version"],
        )
        limits = settings["rare_words"], settings["max_words"], settings.get("last_words", 0)
    except (OSError, UnicodeDecodeError, KeyError, MemoryError) as error:
        problem = str(error) or "not enough memory"
        raise ModelError(f"{folder}: {TOKENIZER} or {VOCAB} cannot be read: {problem}.") from error
    vocabulary = Vocabulary.from_text(text)
    return TextEncoder(tokenizer, vocabulary, *limits)


def _load_subword_encoder(path: Path) -> SubwordEncoder:
    try:
        return SubwordEncoder.from_json(path.read_bytes().decode("utf-8"))
    except LamatextError:  # the extra is not installed
        raise
    except Exception as error:  # the library tokenizers raises nothing more precise
        raise ModelError(
            f"{path}: not a file of the library tokenizers: {str(error)[:200]}. Copy the folder "
            "again."
        ) from error


def load_ngrams(folder: Path, config: Config, recipe: Recipe) -> NgramModel | None:
    """Load the n-gram model of a saved model, or return None if it has none."""
    path = ngrams_file(folder, config)
    if path is None:
        return None
    if recipe.model.name == "bert":  # reads subwords
        raise ModelError(f"{path}: bert has no n-gram model. Copy the folder again.")
    labels = len(config["labels"])
    rows = 1 if labels == 2 and "multi_label" not in config else labels
    try:
        return NgramModel.from_tensors(recipe.ngrams, read_tensors(path), rows=rows)
    except ValueError as error:
        raise ModelError(f"{path}: {error}. Copy the folder again.") from error


def load_validation_statistics(config: Config) -> ValidationStatistics | None:
    """Load the validation statistics of a saved model, or return None if it has none."""
    return ValidationStatistics.from_dict(config["validation"]) if "validation" in config else None


def saved_thresholds(config: Config) -> LabelThresholds | None:
    """Return the label thresholds of a saved multi-label model, or None for other models."""
    section = config.get("multi_label")
    if section is None:
        return None
    form: LabelForm = "sets" if section.get("sets") else "lists"
    if section["indicator"]:
        form = "indicator"
    return LabelThresholds(np.array(section["thresholds"], np.float32), form)


def _threshold_json(thresholds: LabelThresholds) -> Config:
    values = [float(f"{value:.9g}") for value in thresholds.values.tolist()]
    sets = {"sets": True} if thresholds.form == "sets" else {}
    return {"thresholds": values, "indicator": thresholds.form == "indicator", **sets}


def _write_encoder(folder: Path, model: SavedModel) -> None:
    if isinstance(model.encoder, TextEncoder):
        settings = model.recipe.text.model_dump(include=TOKENIZER_SETTINGS)
        (folder / TOKENIZER).write_text(json_text(settings), encoding="utf-8")
        words = model.encoder.vocabulary.to_text()
        (folder / VOCAB).write_bytes(words.encode("utf-8", "surrogatepass"))
    elif isinstance(model.encoder, SubwordEncoder):
        (folder / TOKENIZER).write_text(model.encoder.to_json(), encoding="utf-8")


@contextmanager
def _staging_folder(folder: Path) -> Iterator[Path]:
    """Create and lock an empty staging folder for the files of a model that is being saved."""
    staging = folder / STAGING
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written: {error.strerror}.") from error
    with locked_folder(staging):
        for path in staging.iterdir():  # of a save that failed
            path.unlink()
        yield staging


def _replace_files(staging: Path, folder: Path) -> None:
    """Replace the files of a saved model with those in the staging folder, ``config.json`` last."""
    new = {path.name for path in staging.iterdir()}
    for name in set(FILES) - new:
        (folder / name).unlink(missing_ok=True)
    for name in sorted(new, key=lambda name: name == CONFIG):
        with (staging / name).open("rb") as file:
            os.fsync(file.fileno())
        (staging / name).replace(folder / name)
    staging.rmdir()


def describe_ancestors(parent: SavedModel, parent_hash: str | None) -> list[Config]:
    """Describe a saved model's ancestors (models whose training it continued) for ``config.json``.

    There is one entry per ancestor, oldest first; the last one describes ``parent``.
    """
    facts = parent.facts.get("data", {})
    entry = {
        "hash": parent_hash,
        "seed": parent.recipe.seed,
        "validation_fraction": parent.recipe.training.validation_fraction,
        "data": {name: value for name, value in facts.items() if name in _DATA_FACTS},
    }
    return [*parent.facts.get("ancestors", []), entry]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Description of the data that a saved model or one of its ancestors was trained on."""

    facts: Config  # the ``data`` section of config.json
    seed: int  # of the split
    validation_fraction: float

    @property
    def layout(self) -> Layout | None:
        """Columns and format of the saved model's training file, or None if not recorded."""
        return data_layout(self.facts)


def all_training_data(config: Config, recipe: Recipe) -> list[TrainingData]:
    """Describe the training data of a saved model and of its ancestors, latest first."""
    own = TrainingData(config.get("data", {}), recipe.seed, recipe.training.validation_fraction)
    ancestors = [
        TrainingData(entry["data"], entry["seed"], entry["validation_fraction"])
        for entry in reversed(config.get("ancestors", []))
    ]
    return [own, *ancestors]
