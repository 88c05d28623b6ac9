"""Folder format of saved models: file names, ``config.json`` and validation before use.

    config.json         format version, settings, labels, data, versions, checksum of each file
    model.safetensors   tensors of the network, named as in its PyTorch state dict
    tokenizer.json      tokenizer settings
    vocab.txt           vocabulary, one word per line; the line number is the id
    ngrams.safetensors  n-gram model, if there is one
    model.onnx          ONNX graph for prediction without torch; its tensors point into
                        model.safetensors
    metrics.json        scores, learning curve, scores of the baselines
    README.md           model card

Loading a model executes no code from its folder: the files hold JSON, text, tensors and a graph.
``docs/format.md`` specifies every file.
"""

import hashlib
import json
import math
import platform
import zlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from lamatext.data.read_options import Layout
from lamatext.errors import ModelError
from lamatext.saved.json_types import FRACTION, check_config_types, check_metrics_types
from lamatext.saved.quantization import Storage
from lamatext.settings import Recipe, Settings, TextSettings, TrainingSettings

FORMAT = 2
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
VOCAB, GRAPH, METRICS, CARD = "vocab.txt", "model.onnx", "metrics.json", "README.md"
NGRAMS, NGRAMS_OF_FORMAT_1 = "ngrams.safetensors", "wide.safetensors"
FILES = (CONFIG, WEIGHTS, NGRAMS, NGRAMS_OF_FORMAT_1, TOKENIZER, VOCAB, GRAPH, METRICS, CARD)
REQUIRED = (WEIGHTS, TOKENIZER, METRICS)  # the other files depend on the model
STAGING = ".unfinished"  # folder for the new files until all of them are written
CHECKPOINT = "checkpoint.safetensors"  # in the same folder while a training run is unfinished
TEACHER_CHECKPOINTS = tuple(  # checkpoints of the teacher models
    f".{CHECKPOINT}.teacher{number}" for number in ("", "-2", "-3", "-4")
)

STATES_INPUT = "given_states"  # optional input of the ONNX graph: precomputed GRU states (B, T, D)
TOKENIZER_SETTINGS = {
    *("tokenizer", "tokenizer_version", "lowercase", "rare_words", "max_words", "last_words")
}
ABSENT: dict[str, object] = {"tokenizer_version": 1, "last_words": 0}  # defaults for older models

Config = dict[str, Any]

RETIRED: dict[str, dict[str, object]] = {
    "model": {"max_pool": False, "word_dropout": 0.0},
    "training": {"precision": "float32"},
}
"""Format-1 settings that no longer exist, with the only value that can still be loaded."""

RENAMED: dict[str, dict[str, str]] = {
    "text": {
        "lower": "lowercase",
        "rare": "rare_words",
        "tail": "last_words",
        "vectors": "word_vectors",
        "width": "vector_width",
        "skip_gram": "word2vec_skip_gram",
        "vector_epochs": "word2vec_epochs",
        "vector_window": "word2vec_window",
        "vector_sample": "word2vec_subsample",
    },
    "model": {
        "hidden": "hidden_size",
        "scores": "score_input",
        "tanh": "score_tanh",
        "l2": "score_l2",
        "temperature": "initial_temperature",
        "attention_width": "san_width",
        "penalty": "disagreement_weight",
        "filters": "cnn_filters",
        "layers": "transformer_layers",
        "feed_forward": "transformer_feed_forward",
        "positions": "transformer_positions",
        "classifier": "classifier_width",
    },
    "training": {
        "rate": "learning_rate",
        "keep": "keep_weights",
        "batch": "batch_size",
        "clip": "gradient_clip",
        "valid": "validation_fraction",
    },
    "wide": {
        "use": "enabled",
        "words": "max_words",
        "power": "naive_bayes_power",
        "strength": "svm_c",
        "megabytes": "max_megabytes",
    },
}
"""Format-1 setting names by table, with the names that replaced them."""

SCORE_INPUTS = {"u": "projected", "h": "states"}  # values of format 1's model.scores

_LIBRARIES = ("lamatext", "torch", "numpy", "gensim", "numba", "scikit-learn", "onnxruntime")


def _advice(folder: Path) -> str:
    """Return advice on completing an unfinished saved model folder, or an empty string."""
    if (folder / CHECKPOINT).is_file():
        return " Its training is unfinished: continue it with --resume."
    has_only_hidden_files = all(path.name.startswith(".") for path in folder.iterdir())
    if (folder / STAGING).is_dir() or has_only_hidden_files:
        return " It is empty or unfinished: repeat the command that writes it."
    return ""


def load_config(folder: str | PathLike[str]) -> Config:
    """Read ``config.json`` and validate the saved model folder.

    This checks the format version, labels, storage type, checksums and the types of all other
    values that are used. The settings of a format-1 folder are returned under their current names.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "no such folder"
        on_hub = f" A model on the Hub is hf:{folder}." if _could_be_on_hub(folder) else ""
        raise ModelError(
            f"{folder}: {problem}. Expected a folder written by lamatext train.{on_hub}"
        )
    path = folder / CONFIG
    if path.is_symlink():
        _check_file(folder, CONFIG)
    if not path.is_file():
        raise ModelError(f"{folder}: no {CONFIG}, so it is not a saved model.{_advice(folder)}")
    try:
        config: Config = _parse_json(path)
        version = config["format"]
    except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise ModelError(
            f"{path}: not the config of a saved model. Train the model again."
        ) from error
    if version not in (1, FORMAT):
        raise ModelError(
            f"{folder}: saved in format {version} by lamatext {config.get('lamatext', '?')}; this "
            f"version reads formats 1 and {FORMAT}. Upgrade lamatext, or train the model again."
        )
    _check_labels(path, config.get("labels"))
    _check_multi_label(path, config)
    _check_storage(path, config.get("storage"))
    _check_files(folder, config.get("files"))
    check_config_types(path, config)
    if version == 1 and isinstance(config.get("recipe"), dict):
        config["recipe"] = _translate_recipe(config["recipe"], path)
    return config


def _could_be_on_hub(folder: Path) -> bool:
    """Return whether a missing saved model folder could be the name of a model on the Hub."""
    return not folder.is_absolute() and len(folder.parts) == 2 and not folder.parent.exists()


def saved_recipe(folder: Path, config: Config) -> Recipe:
    """Build a Recipe from the settings in the ``config.json`` of a saved model folder.

    Unknown settings that only training uses are ignored, so that a model can still predict after a
    new version of lamatext has removed such a setting. An unknown setting that prediction uses is
    an error.
    """
    try:
        tables: dict[str, type[Settings]] = {"training": TrainingSettings, "text": TextSettings}
        recipe = dict(config["recipe"])
        for name, table in tables.items():
            settings = recipe.get(name, {}).items()
            recipe[name] = {key: value for key, value in settings if key in table.model_fields}
        recipe["text"] = ABSENT | recipe["text"]
        return Recipe.model_validate(recipe)
    except KeyError:
        raise ModelError(f"{folder / CONFIG}: has no settings. Train the model again.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelError(
            f"{folder / CONFIG}: its settings cannot be read: {where}: {first['msg']}. "
            "A later version may have written it: upgrade lamatext, or train the model again."
        ) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{folder / CONFIG}: its settings cannot be read: {error}.") from None


def tokenizer_settings(folder: Path, config: Config) -> Config:
    """Read the tokenizer settings from the ``tokenizer.json`` of a saved model folder.

    The model must have a word vocabulary.
    """
    path = folder / TOKENIZER
    renamed = RENAMED["text"] if config["format"] == 1 else {}
    settings = {renamed.get(name, name): value for name, value in read_json(path).items()}
    if unknown := settings.keys() - TOKENIZER_SETTINGS:
        raise ModelError(f"{path}: {min(unknown)} is not known to this version. Upgrade lamatext.")
    settings = ABSENT | settings
    if missing := TOKENIZER_SETTINGS - settings.keys():
        raise ModelError(f"{path}: {min(missing)} is missing. Copy the folder again.")
    try:
        return TextSettings.model_validate(settings).model_dump(include=TOKENIZER_SETTINGS)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ModelError(f"{path}: cannot be read: {reason}. Copy the folder again.") from None


def remembered_layout(config: Config) -> Layout | None:
    """Return the training file's columns and format from ``config.json``, or None if not saved."""
    return data_layout(config.get("data", {}))


def data_layout(facts: Config) -> Layout | None:
    """Return the columns and format in a ``data`` section of ``config.json``, or None if absent."""
    layout = facts.get("layout")
    return None if layout is None else Layout.from_json(layout)


def read_json(path: Path) -> Config:
    """Read a JSON object from a file in a saved model folder; raise ModelError if it is invalid."""
    try:
        value = _parse_json(path)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ModelError(f"{path}: cannot be read as JSON. Copy the folder again.") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected a JSON object. Copy the folder again.")
    return value


def _parse_json(path: Path) -> Any:
    """Parse a JSON file of a saved model; raise ModelError for numbers that are not finite."""

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise ModelError(f"{path}: {digits} is not a finite number. Copy the folder again.")
        return number

    return json.loads(path.read_bytes(), parse_float=finite, parse_constant=finite)


def json_text(value: Mapping[str, Any]) -> str:
    """Serialize a JSON object as indented text for a file in a saved model folder."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def load_metrics(folder: Path) -> Config:
    """Read the ``metrics.json`` of a saved model folder and check the types of its values."""
    metrics = read_json(folder / METRICS)
    check_metrics_types(folder / METRICS, metrics)
    return metrics


def ngrams_file(folder: Path, config: Config) -> Path | None:
    """Return the path of the n-gram model in a saved model folder, or None if it has none."""
    names = (name for name in (NGRAMS, NGRAMS_OF_FORMAT_1) if name in config["files"])
    name = next(names, None)
    return None if name is None else folder / name


def folder_size(folder: Path) -> int:
    """Return the size in bytes of the files in a saved model folder that prediction may need.

    The metrics and the model card do not count: they grow when the model is scored.
    """
    files = (folder / name for name in FILES if name not in (METRICS, CARD))
    return sum(file.stat().st_size for file in files if file.is_file())


def model_hash(folder: Path, config: Config) -> str:
    """Return a SHA-256 hash of everything in a saved model folder that affects predictions.

    The hash covers the tensors, the tokenizer, the vocabulary, and the settings and labels in
    ``config.json``, but not the metrics, the model card and the facts about the training run.
    """
    facts = {key: value for key, value in config.items() if key not in _NOT_HASHED}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in (WEIGHTS, NGRAMS, NGRAMS_OF_FORMAT_1, TOKENIZER, VOCAB):
        if name in config["files"]:
            content = (folder / name).read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


_NOT_HASHED = {
    *("format", "lamatext", "saved", "files", "data", "versions", "parameters", "training"),
    "ancestors",
}


def checksum(path: Path) -> int:
    """Return the CRC-32 checksum of a file in a saved model folder, to detect damage."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def _translate_recipe(recipe: Config, path: Path) -> Config:
    """Convert the settings of a saved model from format 1 to format 2.

    Raises:
        ModelError: a setting that no longer exists has a value that is not supported anymore.
    """
    translated: Config = {}
    for table, settings in recipe.items():
        new_table = "ngrams" if table == "wide" else table
        if not isinstance(settings, dict):
            translated[new_table] = settings
            continue
        retired, renamed = RETIRED.get(table, {}), RENAMED.get(table, {})
        for name, value in settings.items():
            if name in retired and value != retired[name]:
                raise ModelError(
                    f"{path}: the model uses the setting {table}.{name} = {value}, which this "
                    "version no longer supports. Train the model again."
                )
        translated[new_table] = {
            renamed.get(name, name): value
            for name, value in settings.items()
            if name not in retired
        }
    model = translated.get("model")
    if isinstance(model, dict) and "score_input" in model:
        model["score_input"] = SCORE_INPUTS.get(str(model["score_input"]))
    return translated


def _check_labels(path: Path, labels: object) -> None:
    if isinstance(labels, list) and len(labels) > 1:
        same_kind = {type(label) for label in labels} in ({str}, {int}, {bool})
        if same_kind and len(set(labels)) == len(labels) and all(map(_can_be_written, labels)):
            return
    raise ModelError(
        f"{path}: expected labels, a list of at least two different str, int or bool, got "
        f"{str(labels)[:60]}. Train the model again."
    )


def _check_multi_label(path: Path, config: Config) -> None:
    """Check that a saved multi-label model has one threshold from 0 to 1 per label."""
    if "multi_label" not in config:
        return
    section = config["multi_label"]
    if isinstance(section, dict) and section.keys() - {"sets"} == {"thresholds", "indicator"}:
        thresholds = section["thresholds"]
        if (
            isinstance(section["indicator"], bool)
            and isinstance(section.get("sets", False), bool)
            and isinstance(thresholds, list)
            and len(thresholds) == len(config["labels"])
            and all(FRACTION.matches(threshold) for threshold in thresholds)
        ):
            return
    raise ModelError(
        f"{path}: expected multi_label to hold indicator, true or false, and thresholds, a number "
        f"from 0 to 1 for each label, got {str(section)[:60]}. Train the model again."
    )


def _can_be_written(label: str | int) -> bool:
    """Return whether a label can be stored in the saved model format."""
    if isinstance(label, int):
        return -(1 << 63) <= label < 1 << 63
    return not any(0xD800 <= ord(character) < 0xE000 for character in label)


def _check_storage(path: Path, storage: object) -> None:
    if storage not in get_args(Storage):
        raise ModelError(
            f"{path}: expected storage to be one of {', '.join(get_args(Storage))}, got "
            f"{str(storage)[:60]}. Train the model again."
        )


def _check_file(folder: Path, name: str) -> None:
    """Check that a file of a saved model exists and does not link outside its folder."""
    path = folder / name
    if not path.is_file():
        raise ModelError(f"{folder}: {name} is missing. Save or copy the whole folder again.")
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(
            f"{path}: is a symbolic link out of the model's folder. Copy the file itself."
        )


def _check_files(folder: Path, checksums: object) -> None:
    if not isinstance(checksums, dict):
        raise ModelError(
            f"{folder / CONFIG}: does not list the model's files. Train the model again."
        )
    for name in FILES:
        if (folder / name).is_symlink():  # listed or not: it may be served or replaced
            _check_file(folder, name)
        if name in (CONFIG, CARD) or (name not in checksums and name not in REQUIRED):
            continue  # users may edit the model card
        _check_file(folder, name)
        if name == METRICS and name not in checksums:
            continue  # add_metrics is replacing it, or was interrupted
        if checksum(folder / name) != checksums.get(name):
            raise ModelError(
                f"{folder / name}: damaged, or from another save than {CONFIG}. "
                "Copy the folder again, or finish the run with --resume."
            )


def versions() -> dict[str, str]:
    """Return the versions of Python and the main libraries, to record them in a saved model."""
    installed = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed
