"""The models that a server answers with, each with its queues."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lamatext.errors import ConfigError
from lamatext.runtime.engine import Floats
from lamatext.runtime.parallel import usable_cores
from lamatext.runtime.predictor import Predictor
from lamatext.serve.limits import Limits
from lamatext.serve.prometheus import Metrics
from lamatext.serve.request_batching import Batcher


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A saved model under a name."""

    name: str
    folder: Path
    predictor: Predictor

    @property
    def labels(self) -> list[str] | list[int]:
        """Its classes."""
        labels: list[str] | list[int] = self.predictor.classes_.tolist()
        return labels


class Queues:
    """Threads of their own for each: a long explanation never holds up the predictions."""

    def __init__(self, model: ServedModel, limits: Limits, metrics: Metrics) -> None:
        self.model, self.labels, self._metrics = model, model.labels, metrics
        self.predict: Batcher[Floats] = Batcher(
            self._predict,
            most=limits.waiting,
            threads=max(1, usable_cores() - 1),  # one is left to the connections
            on_batch=metrics.batches.observe,
        )
        self.explain: Batcher[str] = Batcher(self._explain, most=limits.waiting, wait=0)

    def warm_up(self) -> None:
        """Load what is loaded at the first call."""
        self._predict(["warm up"])
        self._explain(["warm up"])

    def close(self) -> None:
        """Let the threads end."""
        self.predict.close()
        self.explain.close()

    def _predict(self, texts: list[str]) -> list[Floats]:
        return [*self.model.predictor.predict_proba(texts)]

    def _explain(self, texts: list[str]) -> list[str]:
        return [self.model.predictor.explain(text).to_json() for text in texts]


def load_models(folders: Sequence[Path]) -> list[ServedModel]:
    """The saved models, named as their folders."""
    names = [folder.resolve().name for folder in folders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two models are called {twice}. Rename the folder of one of them.")
    return [
        ServedModel(name, folder, Predictor.load(folder))
        for name, folder in zip(names, folders, strict=True)
    ]


def told(
    labels: Sequence[str | int], probabilities: Floats, *, top_k: int, proba: bool
) -> dict[str, object]:
    """What ``/predict`` says of one text."""
    exact = probabilities.tolist()
    values = [float(f"{value:.6g}") for value in exact]
    best = exact.index(max(exact))  # of a few numbers this is faster than numpy
    answer: dict[str, object] = {"label": labels[best], "probability": values[best]}
    if top_k > 1:
        order = np.argsort(-probabilities, kind="stable")[:top_k].tolist()
        answer["top"] = [{"label": labels[c], "probability": values[c]} for c in order]
    if proba:
        answer["probabilities"] = {str(label): v for label, v in zip(labels, values, strict=True)}
    return answer
