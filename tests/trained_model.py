"""A small trained model with a network and an n-gram model, shared by all tests."""

from functools import cache

import torch
from torch import nn

from lamatext.classifier import TextClassifier
from lamatext.runtime.predictor import Predictor
from tests.corpora import TINY, reviews

SETTINGS: dict[str, object] = {**TINY, "ngrams.enabled": True, "text.min_count": 3}


@cache
def trained(seed: int = 0) -> TextClassifier:
    """Train a classifier on ``reviews(120)``, once per test process.

    With so few texts the network has weight 0; here it gets a small one, so that both parts count.
    """
    texts, labels = reviews(120)
    model = TextClassifier(recipe="default", random_state=seed, settings=SETTINGS)
    model.fit(texts, labels)
    last = [layer for layer in model.network_.modules() if isinstance(layer, nn.Linear)][-1]
    nn.init.normal_(last.weight, std=0.3, generator=torch.Generator().manual_seed(seed))
    model.facts_["training"]["scales"]["network"] = 1.0
    return model


def predictor() -> Predictor:
    """Return the predictor of the trained classifier."""
    return trained()._predictor()
