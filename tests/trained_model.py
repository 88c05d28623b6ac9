"""A small trained model with a network and an n-gram model, shared by all tests."""

from functools import cache

from lamatext.classifier import TextClassifier
from lamatext.runtime.predictor import Predictor
from tests.corpora import TINY, reviews

SETTINGS: dict[str, object] = {**TINY, "ngrams.enabled": True, "text.min_count": 3}


@cache
def trained(seed: int = 0) -> TextClassifier:
    """Train a classifier on ``reviews(120)``, once per test process."""
    texts, labels = reviews(120)
    model = TextClassifier(recipe="default", random_state=seed, settings=SETTINGS)
    return model.fit(texts, labels)


def predictor() -> Predictor:
    """Return the predictor of the trained classifier."""
    return trained()._predictor()
