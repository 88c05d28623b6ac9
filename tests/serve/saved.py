"""Saved models with random weights, made without training."""

from pathlib import Path

import torch

from lamatext.config import Recipe
from lamatext.data.encode import TextEncoder
from lamatext.data.tokens import WordTokenizer
from lamatext.data.vocab import Vocabulary
from lamatext.nn.network import build_network
from lamatext.runtime.weights import Storage
from lamatext.store import SavedModel, save_model

WORDS = [
    *("film", "good", "bad", "a", "the", "not", "and", ",", ".", "!", "'s", "don't", "it's"),
    *("thoughtful", "dull", "wonderful", "mess", "café", "naïve", "ß", "ΐ", "東", "京", "好"),
    *("한국어", "привет", "😀", "👍🏽", "🇩🇪", "i̇stanbul", "σοφός", "42", "²", "<", ">", "/", "&"),
]
LABELS = ["bad", "good", "<b>so</b>"]


def save(
    folder: Path,
    name: str = "lama-ctx",
    *,
    text: dict[str, object] | None = None,
    labels: list[str] | list[int] | None = None,
    storage: Storage = "float32",
    **model: object,
) -> Path:
    """A small model of that system in ``folder``."""
    sizes = {"hidden": 7, "heads": 5, "classifier": 9, "filters": 6, "attention_width": 11}
    about = {"min_count": 1, "width": 12, "rare": "unknown", **(text or {})}
    recipe = Recipe.model_validate({"model": {"name": name, **sizes, **model}, "text": about})
    labels = LABELS if labels is None else labels
    rows = len(WORDS) + 2
    torch.manual_seed(0)
    network = build_network(recipe.model, vocabulary=rows, width=12, classes=len(labels))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.4)
    tensors = {key: value.numpy().copy() for key, value in network.state_dict().items()}
    settings = recipe.text
    encoder = TextEncoder(
        WordTokenizer(lower=settings.lower),
        Vocabulary(WORDS),
        settings.rare,
        settings.max_words,
        settings.tail,
    )
    return save_model(folder, SavedModel(recipe, labels, tensors, encoder), storage=storage)
