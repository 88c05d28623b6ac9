"""Small, fast, explainable text classification.

Importing this package is fast: each name below is imported, with its dependencies, on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamatext.classifier import TextClassifier
    from lamatext.errors import ConfigError, DataError, LamatextError, MissingExtraError, ModelError
    from lamatext.explain.explanation import Explanation
    from lamatext.runtime.predictor import Predictor

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DataError",
    "Explanation",
    "LamatextError",
    "MissingExtraError",
    "ModelError",
    "Predictor",
    "TextClassifier",
]

_HOME = {
    "TextClassifier": "lamatext.classifier",
    "Predictor": "lamatext.runtime.predictor",
    "Explanation": "lamatext.explain.explanation",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'lamatext' has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, "lamatext.errors")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
