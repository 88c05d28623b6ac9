"""Registry of the served models: names, versions, batching queues, and reloading."""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lamatext.errors import ConfigError, LamatextError, ModelError
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.runtime.predictor import Predictor, TextAssessment
from lamatext.saved.format import CONFIG, load_config, model_hash
from lamatext.saved.model_hub import PREFIX, local_folder
from lamatext.serve.prometheus import Metrics
from lamatext.serve.request_batching import Batcher
from lamatext.serve.schemas import Limits, assessment_json
from lamatext.views.web_model import model_summary, runs_in_page

Stamp = tuple[int, int, int]  # inode, size and modification time of config.json

log = logging.getLogger("lamatext.serve")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A registry entry with a loaded model and the name by which clients request it."""

    name: str
    folder: Path
    predictor: Predictor
    version: str  # when it was saved; empty if an earlier lamatext saved it
    hash: str
    page_facts: Mapping[str, Any]  # shown on the web page
    stamp: Stamp | None

    @classmethod
    def load(cls, name: str, folder: Path) -> "ServedModel":
        """Load a model from its folder as a registry entry."""
        before = stamp_of(folder)
        config = load_config(folder)
        entry = cls(
            name=name,
            folder=folder,
            predictor=Predictor.load(folder),
            version=config.get("saved", ""),
            hash=model_hash(folder, config),
            page_facts={"runs_in_page": runs_in_page(folder), **model_summary(folder)},
            stamp=before,
        )
        if stamp_of(folder) != before:
            raise ModelError(f"{folder}: was changed while it was loaded. Load it again.")
        return entry

    @property
    def labels(self) -> list[str] | list[int]:
        """Class labels of the registered model, as plain Python values."""
        labels: list[str] | list[int] = self.predictor.classes_.tolist()
        return labels

    @property
    def identity(self) -> dict[str, str]:
        """Name, version and hash of the registered model, which are part of every response."""
        return {"model": self.name, "version": self.version, "hash": self.hash}


class ExplanationJson(NamedTuple):
    """Explanation by a registered model, partly serialized to JSON for the response."""

    explained: object  # labels to explain unless the request names one
    fields: str  # all other fields, as a JSON object

    def complete(self, label: str | int | None) -> str:
        """Return the explanation as JSON, for ``label`` or (if it is None) the default labels."""
        explained = self.explained if label is None else [label]
        return f'{{"explained": {json.dumps(explained)}, {self.fields[1:]}'


class ModelQueues:
    """The prediction queue and the explanation queue of a registered model.

    Each queue has its own threads, so a slow explanation never delays predictions.
    """

    def __init__(self, model: ServedModel, limits: Limits, metrics: Metrics) -> None:
        self.model, self.labels, self.identity = model, model.labels, model.identity
        self.thresholds = model.predictor.thresholds
        self.requests = 0  # number of requests that are using the queues
        self.predict: Batcher[TextAssessment] = Batcher(
            self._predict,
            capacity=limits.queue,
            threads=limits.threads or max(1, usable_cores() - 1),  # one is left for connections
            on_batch=metrics.batches.observe,
        )
        self.explain: Batcher[ExplanationJson] = Batcher(
            self._explain, capacity=limits.queue, wait=0
        )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the queues of a registered model open while a request uses them."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def warm_up(self) -> None:
        """Run the registered model once, so that the first request is not slow."""
        self._predict(["warm up"])
        self._explain(["warm up"])

    async def close_when_unused(self) -> None:
        """Stop the worker threads of a replaced model after its last request."""
        while self.requests:
            await asyncio.sleep(0.05)
        self.close()

    def close(self) -> None:
        """Stop the worker threads of a registered model."""
        self.predict.close()
        self.explain.close()

    def _predict(self, texts: list[str]) -> list[TextAssessment]:
        return self.model.predictor.assess_each(texts)

    def _explain(self, texts: list[str]) -> list[ExplanationJson]:
        predictor = self.model.predictor
        fields = [predictor.explain(text).as_dict() for text in texts]
        if predictor.threshold is not None or predictor.validation is not None:
            assessments = map(assessment_json, predictor.assess_each(texts))
            fields = [one | more for one, more in zip(fields, assessments, strict=True)]
        return [ExplanationJson(one.pop("explained"), json.dumps(one)) for one in fields]


class ModelRegistry:
    """Registry of the served models by name, which reloads a model when its folder has changed.

    A request keeps using the queues with which it started, so that a reload loses no requests.
    """

    def __init__(self, models: Sequence[ServedModel], limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.queues = {model.name: ModelQueues(model, limits, metrics) for model in models}
        self.default = models[0].name
        self._failed: dict[str, Stamp | None] = {}  # folders that could not be loaded
        self._reloading = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def models(self) -> list[ServedModel]:
        """All models in the registry, starting with the default model."""
        return [queues.model for queues in self.queues.values()]

    async def reload(self, *, changed_only: bool = False) -> None:
        """Reload the registered models, keeping the loaded version of a model if reloading fails.

        Args:
            changed_only: whether to skip models whose ``config.json`` has not changed since they
                were loaded, or since they could not be loaded.
        """
        async with self._reloading:
            for model in self.models:
                stamp = stamp_of(model.folder)
                if not changed_only or stamp not in (model.stamp, self._failed.get(model.name)):
                    await self._reload_model(model, stamp)

    async def watch(self, seconds: float) -> None:
        """Check the folders of registered models at regular intervals and reload changed models."""
        while True:
            await asyncio.sleep(seconds)
            await self.reload(changed_only=True)

    def close(self) -> None:
        """Stop the worker threads of all registered models when the server shuts down."""
        for queues in self.queues.values():
            queues.close()

    async def _reload_model(self, model: ServedModel, stamp: Stamp | None) -> None:
        try:
            new = await asyncio.to_thread(ServedModel.load, model.name, model.folder)
            queues = ModelQueues(new, self.limits, self.metrics)
            await asyncio.to_thread(queues.warm_up)
        except (LamatextError, OSError) as error:
            self._failed[model.name] = stamp
            self.metrics.reloads[model.name, "failed"] += 1
            log.error("%s: not reloaded, the old model is still served: %s", model.name, error)
            return
        old, self.queues[model.name] = self.queues[model.name], queues
        closing = asyncio.create_task(old.close_when_unused())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self.metrics.reloads[model.name, "ok"] += 1
        log.info("%s: reloaded, version %s, hash %s", new.name, new.version, new.hash)


def load_models(models: Sequence[str | Path]) -> list[ServedModel]:
    """Load the models to serve as registry entries, each given as FOLDER or NAME=FOLDER."""
    pairs = [_parse_model(str(model)) for model in models]
    names = [name for name, _ in pairs]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ConfigError(f"two models are called {duplicate}. Rename one of them: NAME=FOLDER.")
    return [ServedModel.load(name, folder) for name, folder in pairs]


def stamp_of(folder: Path) -> Stamp | None:
    """Return inode, size and modification time of a model's ``config.json``, to detect changes.

    Return None if the file is missing.
    """
    try:
        status = (folder / CONFIG).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _parse_model(argument: str) -> tuple[str, Path]:
    name, equals, folder = argument.partition("=")
    if argument.startswith(PREFIX):
        return argument.partition("@")[0].rpartition("/")[2], local_folder(argument)
    if not equals or Path(argument).exists():
        path = Path(argument)
        return path.resolve().name, path
    if not name or "/" in name:
        raise ConfigError(f"{argument}: expected NAME=FOLDER, with a name without slashes.")
    return name, local_folder(folder)
