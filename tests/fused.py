"""A small model with both its parts, a network and a linear model on n-grams, really trained."""

from functools import cache

from lamatext.classifier import TextClassifier
from lamatext.runtime.predictor import Predictor
from tests.corpora import TINY, reviews

SETTINGS: dict[str, object] = {**TINY, "ngrams.enabled": True, "text.min_count": 3}


@cache
def trained(seed: int = 0) -> TextClassifier:
    """Trained once for all tests; its texts are those of ``reviews(120)``."""
    texts, labels = reviews(120)
    model = TextClassifier(recipe="default", random_state=seed, settings=SETTINGS)
    return model.fit(texts, labels)


def predictor() -> Predictor:
    """The same, ready to explain."""
    return trained()._predictor()
