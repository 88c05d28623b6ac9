"""Registry of the served models: their names, labels and batching queues."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lamatext.errors import ConfigError
from lamatext.runtime.engine import Floats
from lamatext.runtime.parallel import usable_cores
from lamatext.runtime.predictor import Predictor
from lamatext.serve.prometheus import Metrics
from lamatext.serve.request_batching import Batcher
from lamatext.serve.schemas import Limits


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A registry entry: a loaded model and the name by which clients request it."""

    name: str
    folder: Path
    predictor: Predictor

    @property
    def labels(self) -> list[str] | list[int]:
        """Class labels of the registered model, as plain Python values."""
        labels: list[str] | list[int] = self.predictor.classes_.tolist()
        return labels


class ModelQueues:
    """The request queues of a registered model, one for predictions and one for explanations.

    Each queue has its own threads, so a slow explanation never delays predictions.
    """

    def __init__(self, model: ServedModel, limits: Limits, metrics: Metrics) -> None:
        self.model, self.labels = model, model.labels
        self.predict: Batcher[Floats] = Batcher(
            self._predict,
            capacity=limits.queue,
            threads=max(1, usable_cores() - 1),  # one core is left for the connections
            on_batch=metrics.batches.observe,
        )
        self.explain: Batcher[str] = Batcher(self._explain, capacity=limits.queue, wait=0)

    def warm_up(self) -> None:
        """Run the registered model once, so that the first request is not slow."""
        self._predict(["warm up"])
        self._explain(["warm up"])

    def close(self) -> None:
        """Stop the worker threads of the registered model's queues."""
        self.predict.close()
        self.explain.close()

    def _predict(self, texts: list[str]) -> list[Floats]:
        return [*self.model.predictor.predict_proba(texts)]

    def _explain(self, texts: list[str]) -> list[str]:
        return [self.model.predictor.explain(text).to_json() for text in texts]


def load_models(folders: Sequence[Path]) -> list[ServedModel]:
    """Load the models to serve and return a registry entry for each, named after its folder."""
    names = [folder.resolve().name for folder in folders]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ConfigError(f"two models are called {duplicate}. Rename the folder of one of them.")
    return [
        ServedModel(name, folder, Predictor.load(folder))
        for name, folder in zip(names, folders, strict=True)
    ]
