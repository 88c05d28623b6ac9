"""Small saved models with random weights: the base of hostile model folders and of test servers.

    python -m hardening.base_models FOLDER [NAME …]

runs in a process of its own, so that the process that loads the models never imports torch.
"""

import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lamatext.data.read_options import Layout
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.label_thresholds import LabelThresholds
from lamatext.ngrams.hashing import count_ngrams
from lamatext.ngrams.model import NgramModel, NgramTable, ngram_specs
from lamatext.outliers import STEPS
from lamatext.saved.model_io import SavedModel, save_model
from lamatext.settings import NgramSettings, Recipe

WORDS = (
    *("film", "good", "bad", "a", "the", "not", "and", ",", ".", "!", "dull", "wonderful", "mess"),
    *("café", "東", "京", "привет", "😀", "42", "don't", "<", ">", "&", "is", "it", "was", "so"),
)
SIZES = {"hidden_size": 6, "heads": 3, "classifier_width": 5, "cnn_filters": 4, "san_width": 7}
SIZES |= {"transformer_feed_forward": 6}
# Name of the folder: model, labels, storage, whether it has n-grams.
BASE_MODELS: dict[str, tuple[str, list[str], str, bool]] = {
    "ngrams": ("lama-ctx", ["bad", "good"], "float32", True),
    "int8": ("lama-ctx", ["a", "b", "c"], "int8", True),
    "bigru": ("bigru", ["x", "y"], "float32", False),
    "cnn": ("cnn", ["x", "y", "z"], "float16", False),
    "encoder": ("lama-encoder", ["x", "y"], "float32", False),
    "blocks": ("lama-blocks", ["x", "y"], "float16", False),
    "phrases": ("lama-phrases", ["x", "y"], "float32", False),
    "several labels": ("avg", ["x", "y", "z"], "float32", True),
}

BERT = "bert"  # a base model of its own, because it needs torch and transformers to run
SUBWORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##less")


def make_base_models(root: Path, *names: str) -> list[Path]:
    """Save base models in ``root`` with a process of its own and return their folders.

    Without ``names`` they are all but ``bert``.
    """
    subprocess.run([sys.executable, "-m", "hardening.base_models", str(root), *names], check=True)
    return sorted(path for path in root.iterdir() if path.is_dir())


def save_random_model(folder: Path, name: str) -> Path:
    """Save one of the base models with random weights."""
    import torch

    from lamatext.nn.network import build_network

    model, labels, storage, has_ngrams = BASE_MODELS[name]
    recipe = Recipe.model_validate(
        {
            "model": {"name": model, **SIZES},
            "text": {"min_count": 1, "vector_width": 8, "rare_words": "unknown"},
            "ngrams": {"enabled": has_ngrams, "characters": True},
            "storage": storage,
        }
    )
    torch.manual_seed(0)
    vocabulary = Vocabulary(WORDS)
    network = build_network(recipe.model, vocabulary=len(vocabulary), width=8, classes=len(labels))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.4)
    tensors = {key: value.numpy().copy() for key, value in network.state_dict().items()}
    text = recipe.text
    encoder = TextEncoder(WordTokenizer(), vocabulary, text.rare_words, None, 0)
    ngrams = random_ngram_model(recipe.ngrams, len(labels)) if has_ngrams else None
    thresholds = None
    if name == "several labels":
        thresholds = LabelThresholds(np.full(len(labels), 0.5, np.float32))
    facts = _facts(len(labels))
    saved = SavedModel(recipe, labels, tensors, encoder, ngrams, thresholds, facts)
    return save_model(folder, saved, storage=recipe.storage)


def save_random_bert(folder: Path) -> Path:
    """Save a tiny base model ``bert`` with random weights."""
    import torch

    from lamatext.data.text_encoder import SubwordEncoder
    from lamatext.nn.pretrained import load_pretrained

    transformers: Any = import_module("transformers")
    labels = ["x", "y", "z"]
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as encoder:
        vocabulary = Path(encoder) / "vocab.txt"
        vocabulary.write_text("".join(f"{word}\n" for word in SUBWORDS), encoding="utf-8")
        config = transformers.BertConfig(
            vocab_size=len(SUBWORDS), hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=16, max_position_embeddings=40,
        )  # fmt: skip
        transformers.BertModel(config).save_pretrained(encoder)
        tokenizer = transformers.BertTokenizerFast(str(vocabulary), model_max_length=40)
        tokenizer.save_pretrained(encoder)
        loaded = load_pretrained(encoder, classes=len(labels))
    recipe = Recipe.model_validate({"model": {"name": BERT}, "ngrams": {"enabled": False}})
    saved = SavedModel(
        recipe,
        labels,
        {key: value.numpy().copy() for key, value in loaded.network.state_dict().items()},
        SubwordEncoder.from_json(loaded.tokenizer, loaded.max_words),
        facts={**_facts(len(labels)), "architecture": loaded.architecture},
    )
    return save_model(folder, saved)


def _facts(classes: int) -> dict[str, Any]:
    """Return the sections of a base model's config that prediction and commands read."""
    evidence = np.linspace(-3, 3, STEPS + 1).tolist()
    counts = {"texts": 90, "words": 900, "unknown_words": 9, "labels": [30] * classes}
    rates = dict.fromkeys(("answered", "accuracy", "low", "high"), 0.9)
    return {
        "validation": {**counts, "evidence": evidence},
        "unsure": {"threshold": 0.6, "target_accuracy": 0.9, "texts": 90, **rates},
        "data": {"source": "reviews.csv", "layout": Layout().as_json()},
    }


def random_ngram_model(settings: NgramSettings, classes: int) -> NgramModel:
    """Return an n-gram model with random weights for a base model."""
    draw = np.random.default_rng(0)
    texts = [WORDS[start : start + 6] for start in range(0, len(WORDS), 3)]
    rows = 1 if classes == 2 else classes
    tables = []
    for spec in ngram_specs(settings):
        keys = np.unique(count_ngrams(texts, spec).keys)
        weights = draw.integers(-127, 128, (rows, len(keys)), np.int8)
        idf = draw.integers(1, 256, len(keys), np.uint8)
        steps = np.full(rows, 0.05, np.float32)
        tables.append(NgramTable(spec, keys, idf, weights, np.array(0.03, np.float32), steps))
    return NgramModel(tuple(tables), draw.normal(size=rows).astype(np.float32))


if __name__ == "__main__":
    for base in sys.argv[2:] or BASE_MODELS:
        if base == BERT:
            save_random_bert(Path(sys.argv[1]) / base)
        else:
            save_random_model(Path(sys.argv[1]) / base, base)
