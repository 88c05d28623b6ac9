"""A saved folder before it is used: its files, and what must hold of them.

    config.json         format, settings, labels, data, versions, and a checksum of each other file
    model.safetensors   the network's tensors, under the names of its state dict
    tokenizer.json      how a text is cut into words
    vocab.txt           the words, one a line; the line number is the id
    ngrams.safetensors  the linear model on n-grams, if the model has one
    model.onnx          the graph that predicts without torch; its matrices lie in model.safetensors
    metrics.json        scores, learning curve, the baselines' scores
    README.md           the model card

Nothing in it is ever executed: JSON, text, tensors and a graph of known operators.
"""

import json
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError, safe_open

from lamatext.errors import ModelError
from lamatext.settings import Recipe, Settings, TextSettings, TrainingSettings

FORMAT = 2
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
VOCAB, GRAPH, METRICS, CARD = "vocab.txt", "model.onnx", "metrics.json", "README.md"
NGRAMS = "ngrams.safetensors"
NGRAMS_OF_FORMAT_1 = "wide.safetensors"
FILES = (CONFIG, WEIGHTS, NGRAMS, NGRAMS_OF_FORMAT_1, TOKENIZER, VOCAB, GRAPH, METRICS, CARD)
CHECKPOINT = "checkpoint.safetensors"  # beside them, while a run is unfinished

Facts = dict[str, Any]


def load_config(folder: str | PathLike[str]) -> Facts:
    """What ``config.json`` says, checked: a known format, and every file whole."""
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise ModelError(f"{folder}: {what}. Expected a folder written by lamatext train.")
    path = folder / CONFIG
    if not path.is_file():
        unfinished = (folder / CHECKPOINT).is_file()
        advice = " Its training is unfinished: go on with --resume." if unfinished else ""
        raise ModelError(f"{folder}: no {CONFIG}, so it is not a saved model.{advice}")
    try:
        config: Facts = json.loads(path.read_bytes())
        version = config["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path}: not the config of a saved model. Train it again.") from error
    if version not in (1, FORMAT):
        raise ModelError(
            f"{folder}: saved in format {version} by lamatext {config.get('lamatext', '?')}; this "
            f"version reads formats 1 and {FORMAT}. Upgrade lamatext, or train it again."
        )
    _check_labels(path, config.get("labels"))
    _check_files(folder, config.get("files"))
    return config


def recipe_of(folder: Path, config: Facts) -> Recipe:
    """The settings that the model was trained by.

    Of settings that only training reads, those that this version does not have are passed over: a
    model must still predict when they have gone. One that predicting reads is never passed over.
    """
    try:
        tables: dict[str, type[Settings]] = {"training": TrainingSettings, "text": TextSettings}
        recipe = dict(config["recipe"])
        if config["format"] == 1:
            recipe = settings_from_format_1(recipe, folder)
        for name, table in tables.items():
            kept = recipe.get(name, {}).items()
            recipe[name] = {key: value for key, value in kept if key in table.model_fields}
        return Recipe.model_validate(recipe)
    except KeyError:
        raise ModelError(f"{folder / CONFIG}: has no settings. Train it again.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelError(
            f"{folder / CONFIG}: its settings cannot be read: {where}: {first['msg']}. "
            "It may be of a later version: upgrade lamatext, or train it again."
        ) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{folder / CONFIG}: its settings cannot be read: {error}.") from None


RETIRED: dict[str, dict[str, object]] = {
    "model": {"max_pool": False, "word_dropout": 0.0},
    "training": {"precision": "float32"},
}
"""Settings of format 1 that no longer exist, with the only value that is still readable."""

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
        "characters": "characters",
        "power": "naive_bayes_power",
        "strength": "svm_c",
        "megabytes": "max_megabytes",
    },
}


def settings_from_format_1(recipe: Facts, folder: Path) -> Facts:
    """Translate the settings of a format-1 model to today's names."""
    translated: Facts = {}
    for table, settings in recipe.items():
        if not isinstance(settings, dict):
            translated[table] = settings
            continue
        renamed: Facts = {}
        for name, value in settings.items():
            if name in RETIRED.get(table, {}):
                if table == "model" and value != RETIRED[table][name]:
                    raise ModelError(
                        f"{folder / CONFIG}: uses the setting {table}.{name} = {value}, which this "
                        "version no longer has. Train the model again."
                    )
                continue
            renamed[RENAMED.get(table, {}).get(name, name)] = value
        if table == "model" and "score_input" in renamed:
            renamed["score_input"] = {"u": "projected", "h": "states"}[renamed["score_input"]]
        translated["ngrams" if table == "wide" else table] = renamed
    return translated


def check_fits(folder: Path, recipe: Recipe, *, vocabulary: int, classes: int) -> None:
    """The weights have the shapes that config and vocabulary ask for; of bert torch says so."""
    model, found = recipe.model, tensor_shapes(folder)
    last = "classifier.3" if model.classifier_width else "classifier.1"
    expected = {
        "embedding.weight": (vocabulary, recipe.text.vector_width),
        "encoder.gru.weight_hh_l0": (3 * model.hidden_size, model.hidden_size),
        f"{last}.bias": (classes,),
    }
    if model.classifier_width:
        expected["classifier.0.bias"] = (model.classifier_width,)
    expected |= {
        name: (model.heads * model.rank, *shape[1:])
        for name, shape in found.items()
        if name.startswith("pooling.") and name.endswith(".q.weight")
    }
    for name, shape in expected.items():
        if name not in found and name.startswith("encoder."):
            continue  # a system without a GRU
        if found.get(name) != shape:
            raise ModelError(
                f"{folder / WEIGHTS}: {name} is {found.get(name, 'missing')}, but {CONFIG} and "
                f"{VOCAB} ask for {shape}. The files are of different models: train it again."
            )


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor, without reading the tensors."""
    try:
        with safe_open(folder / WEIGHTS, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS}: cannot be read: {error}.") from error


def read_json(path: Path) -> Facts:
    """A JSON file of the folder."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read as JSON. Copy the folder again.") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected a JSON object. Copy the folder again.")
    return value


def ngrams_file(folder: Path) -> Path:
    """Return the path of the n-gram tables; format 1 had another name for them."""
    old = folder / NGRAMS_OF_FORMAT_1
    return old if old.is_file() else folder / NGRAMS


def folder_size(folder: Path) -> int:
    """Bytes of a saved model."""
    return sum((folder / name).stat().st_size for name in FILES if (folder / name).is_file())


def checksum(path: Path) -> int:
    """CRC-32 of a file: tells damage, not malice."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found = zlib.crc32(block, found)
    return found


def _check_labels(path: Path, labels: object) -> None:
    if isinstance(labels, list) and len(labels) > 1:
        kinds = {type(label) for label in labels}
        if kinds in ({str}, {int}, {bool}) and len(set(labels)) == len(labels):
            return
    raise ModelError(
        f"{path}: expected labels, a list of at least two different str, int or bool, got "
        f"{str(labels)[:60]}. Train it again."
    )


def _check_files(folder: Path, checksums: object) -> None:
    if not isinstance(checksums, dict):
        raise ModelError(f"{folder / CONFIG}: does not list the model's files. Train it again.")
    for name in FILES:
        expected = checksums.get(name)
        if name in (CONFIG, CARD) or (
            expected is None and name in (NGRAMS, NGRAMS_OF_FORMAT_1, VOCAB, GRAPH)
        ):
            continue  # people edit the card; not every system has n-grams, vocabulary and graph
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: {name} is missing. Save or copy the whole folder again.")
        if checksum(folder / name) != expected:
            raise ModelError(
                f"{folder / name}: damaged, or of another save than {CONFIG}. "
                "Copy the folder again, or finish the run with --resume."
            )
