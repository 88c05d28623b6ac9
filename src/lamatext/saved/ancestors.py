"""Ancestors of a saved model: the models that its training continued from, oldest first.

``config.json`` lists them with their hash, the data they were trained on and how it was split, so
that their test texts can be found again.
"""

from dataclasses import dataclass
from typing import Any

from lamatext.data.read_options import Layout
from lamatext.saved.format import Config
from lamatext.saved.model_io import SavedModel
from lamatext.settings import Recipe

_DATA_FACTS = (
    *("source", "texts", "fingerprint", "training_texts", "validation_texts", "test_texts"),
    *("folds", "layout", "test_source", "test_fingerprint", "validation_fingerprint"),
    *("left_out_rows", "moved_rows", "sketch"),
)


def describe_ancestors(parent: SavedModel, parent_hash: str | None) -> list[Config]:
    """List the ancestors of a model, which it was continued from, for ``config.json``.

    There is one entry per model, with ``parent``, the latest, as the last one.
    """
    facts = parent.facts.get("data", {})
    entry = {
        "hash": parent_hash,
        "seed": parent.recipe.seed,
        "validation_fraction": parent.recipe.training.validation_fraction,
        "data": {name: value for name, value in facts.items() if name in _DATA_FACTS},
    }
    return [*parent.facts.get("ancestors", []), entry]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Description of the data that a saved model or one of its ancestors was trained on."""

    facts: Config  # the section ``data`` of config.json
    seed: int  # of the split
    validation_fraction: float

    @property
    def layout(self) -> Layout | None:
        """Columns and format of the saved model's training file, or None if not recorded."""
        layout: dict[str, Any] | None = self.facts.get("layout")
        return None if layout is None else Layout.from_json(layout)


def all_training_data(config: Config, recipe: Recipe) -> list[TrainingData]:
    """Return the training data of a saved model and its ancestors, latest first."""
    own = TrainingData(config.get("data", {}), recipe.seed, recipe.training.validation_fraction)
    ancestors = [
        TrainingData(entry["data"], entry["seed"], entry["validation_fraction"])
        for entry in reversed(config.get("ancestors", []))
    ]
    return [own, *ancestors]
