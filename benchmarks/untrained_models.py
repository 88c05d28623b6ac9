"""Untrained saved models for the latency, throughput and memory benchmarks.

Vocabulary and n-grams come from real texts; the network keeps its random initial weights. The time
of a prediction depends on sizes and texts, not on the values of the weights.
"""

from pathlib import Path

import numpy as np
import torch

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.tokenizer import WordTokenizer, tokenize
from lamatext.data.vocabulary import Vocabulary
from lamatext.ngrams.fitting import fit_ngrams
from lamatext.nn.network import build_network
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.torch_engine import TorchEngine
from lamatext.saved.model_io import SavedModel, load_model, load_network, save_model
from lamatext.settings import Recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings


def save_untrained(folder: Path, recipe: Recipe, dataset: Dataset, *, min_count: int = 3) -> Path:
    """Save an untrained model of the recipe with the vocabulary and n-grams of the data set."""
    label_encoder = LabelEncoder.fit(dataset.require_labels())
    labels, names = label_encoder.encode(dataset.require_labels()), label_encoder.names
    tokens = tokenize(dataset.texts, WordTokenizer())
    rows = np.arange(len(dataset))
    counts = tokens.counts(rows)
    size = DatasetSize(len(dataset), int(counts.sum()), int((counts == 1).sum()), len(names))
    recipe = resolve_auto_settings(recipe, size)
    vocabulary = Vocabulary.from_counts(tokens.types, counts, min_count=min_count)
    text = recipe.text
    encoder = TextEncoder(
        WordTokenizer(), vocabulary, text.rare_words, text.max_words, text.last_words
    )
    torch.manual_seed(0)
    network = build_network(
        recipe.model, vocabulary=len(vocabulary), width=text.vector_width, classes=len(names)
    )
    tensors = {name: value.numpy() for name, value in network.state_dict().items()}
    ngrams = None
    if recipe.ngrams.enabled:
        ngrams = fit_ngrams(tokens.words(rows), labels, recipe.ngrams, classes=len(names))
    model = SavedModel(recipe, names, tensors, encoder, ngrams)
    return save_model(folder, model, storage=recipe.storage)


def load_eager(folder: Path) -> Predictor:
    """Load the untrained model's network in eager PyTorch, without its n-grams."""
    model = load_model(folder)
    return Predictor(TorchEngine(load_network(model)), model.encoder, np.array(model.labels))
