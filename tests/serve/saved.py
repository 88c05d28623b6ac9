"""Small saved models with random weights, made without training and without PyTorch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from lamatext.data.text_encoder import TextEncoder
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.ngrams.hashing import count_ngrams
from lamatext.ngrams.model import MAX_WEIGHT, NgramModel, NgramTable, ngram_specs
from lamatext.outliers import STEPS
from lamatext.saved.format import CONFIG, WEIGHTS, checksum
from lamatext.saved.model_io import SavedModel, save_model
from lamatext.saved.network_tensors import MAX_LOG_TEMPERATURE, network_shapes
from lamatext.saved.quantization import SCALE, Storage
from lamatext.settings import NgramSettings, Recipe

WORDS = [
    *("film", "good", "bad", "a", "the", "not", "and", ",", ".", "!", "'s", "don't", "it's"),
    *("thoughtful", "dull", "wonderful", "mess", "café", "naïve", "ß", "ΐ", "東", "京", "好"),
    *("한국어", "привет", "😀", "👍🏽", "🇩🇪", "i̇stanbul", "σοφός", "42", "²", "<", ">", "/", "&"),
]
LABELS = ["bad", "good", "<b>so</b>"]


def random_ngram_model(settings: NgramSettings, classes: int) -> NgramModel:
    """Return an n-gram model with random weights for the n-grams of some texts."""
    draw = np.random.default_rng(0)
    texts = [WORDS[start : start + 9] for start in range(0, len(WORDS), 3)]
    rows, blocks = 1 if classes == 2 else classes, []
    for spec in ngram_specs(settings):
        keys = np.unique(count_ngrams(texts, spec).keys)
        weights = draw.integers(-127, 128, (rows, len(keys)), np.int8)
        idf = draw.integers(1, 256, len(keys), np.uint8)
        steps = np.full(rows, 0.05, np.float32)
        blocks.append(NgramTable(spec, keys, idf, weights, np.array(0.03, np.float32), steps))
    return NgramModel(tuple(blocks), draw.normal(size=rows).astype(np.float32))


def random_tensors(recipe: Recipe, *, classes: int) -> dict[str, NDArray[np.float32]]:
    """Return random tensors for a network."""
    shapes = network_shapes(recipe, vocabulary=len(WORDS) + 2, classes=classes)
    draw = np.random.default_rng(0)
    return {
        key: draw.normal(scale=0.4, size=shape).astype(np.float32) for key, shape in shapes.items()
    }


def save(  # noqa: PLR0913 - what a test wants to vary
    folder: Path,
    name: str = "lama-ctx",
    *,
    text: dict[str, object] | None = None,
    labels: list[str] | list[int] | None = None,
    storage: Storage = "float32",
    ngrams: bool | NgramModel = False,
    facts: dict[str, object] | None = None,
    network_weight: float = 1.0,
    **model: object,
) -> Path:
    """Save a small model of the system ``name`` with random weights in ``folder``.

    ``network_weight`` is the factor that the calibration has given to the network's last layer.
    """
    sizes = {"hidden_size": 7, "heads": 5, "classifier_width": 9, "cnn_filters": 6, "san_width": 11}
    text_settings = {"min_count": 1, "vector_width": 12, "rare_words": "unknown", **(text or {})}
    recipe = Recipe.model_validate(
        {
            "model": {"name": name, **sizes, **model},
            "text": text_settings,
            "ngrams": {"enabled": bool(ngrams), "characters": True},
        }
    )
    labels = LABELS if labels is None else labels
    tensors = random_tensors(recipe, classes=len(labels))
    last = [key for key in tensors if key.startswith("classifier.")][-2:]
    tensors |= {key: tensors[key] * np.float32(network_weight) for key in last}
    settings = recipe.text
    encoder = TextEncoder(
        WordTokenizer(lower=settings.lowercase),
        Vocabulary(WORDS),
        settings.rare_words,
        settings.max_words,
        settings.last_words,
    )
    ngram_model = random_ngram_model(recipe.ngrams, len(labels)) if ngrams is True else None
    if isinstance(ngrams, NgramModel):
        ngram_model = ngrams
    saved = SavedModel(recipe, labels, tensors, encoder, ngram_model, facts=facts or {})
    return save_model(folder, saved, storage=storage)


def save_overflowing(folder: Path) -> Path:
    """Save a model whose weights are all as large as the format allows: its results overflow."""
    save(
        folder,
        "lama-encoder",
        score_tanh=False,
        score_l2=False,
        score_input="states",
        initial_temperature=1.0,
    )
    stored: dict[str, NDArray[Any]] = {}
    for name, tensor in load_file(folder / WEIGHTS).items():
        if tensor.ndim == 2:
            stored[name] = np.full(tensor.shape, 127, np.int8)
            stored[name + SCALE] = np.full(len(tensor), MAX_WEIGHT, np.float32)
        else:
            stored[name] = np.full_like(tensor, MAX_LOG_TEMPERATURE)
    save_file(stored, folder / WEIGHTS)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["files"][WEIGHTS] = checksum(folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    return folder


def validation_facts(threshold: float, classes: int = 3) -> dict[str, object]:
    """Return the facts of a model that has a threshold and statistics of validation texts."""
    unsure = {"threshold": threshold, "target_accuracy": 0.9, "accuracy": 0.9, "answered": 0.5}
    evidence = np.linspace(0.02, 1, STEPS + 1).tolist()
    counts = {"texts": 10 * classes, "words": 90, "unknown_words": 9, "labels": [10] * classes}
    return {
        "unsure": unsure | {"low": 0.8, "high": 1.0, "texts": 50},
        "validation": counts | {"evidence": evidence},
    }
