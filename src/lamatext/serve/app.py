"""The server's HTTP routes, as a Starlette application.

POST /predict   POST /explain   GET /openapi.json   GET /healthz   GET /readyz   GET /metrics
GET / is the web page, GET /docs the API documentation (see ``web_page.py``).
A request is cancelled if its client disconnects.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive

from lamatext.serve.access_log import AccessLog
from lamatext.serve.http_errors import (
    CLIENT_CLOSED_REQUEST,
    http_exception_handler,
    problem_response,
)
from lamatext.serve.middleware import (
    ApiKeyMiddleware,
    HostMiddleware,
    RequestMiddleware,
    ServerState,
)
from lamatext.serve.prometheus import MEDIA_TYPE as METRICS_TYPE
from lamatext.serve.prometheus import Metrics, SharedMetrics
from lamatext.serve.registry import ModelQueues, ModelRegistry, ServedModel
from lamatext.serve.request_batching import Batcher, OverloadedError
from lamatext.serve.schemas import (
    ExplainRequest,
    Limits,
    PredictRequest,
    TextRequest,
    json_response,
    openapi_document,
    prediction_json,
    read_request,
)
from lamatext.serve.web_page import web_page_routes

R = TypeVar("R")

# Seconds before the server starts to watch for a disconnect. Most requests are answered earlier
# and need only a timer, which costs less than asyncio.timeout.
WATCH_DELAY = 0.05


def create_app(  # noqa: PLR0913 - one argument per option of the server
    models: Sequence[ServedModel],
    *,
    limits: Limits | None = None,
    api_key: str | None = None,
    hosts: Collection[str] | None = None,
    page: bool = True,
    watch_seconds: float = 0,
    access_log: AccessLog | None = None,
    shared_metrics: SharedMetrics | None = None,
) -> Starlette:
    """Create the Starlette application that serves ``models`` over HTTP.

    Args:
        models: the served models; the first one answers requests that name no model.
        limits: request limits; None for the defaults.
        api_key: the key that clients must send; None serves everyone.
        hosts: names that the Host header may have, from ``allowed_hosts``; None allows any.
        page: whether to add the routes of the web page.
        watch_seconds: interval at which to reload models whose folder has changed; 0 for never.
        access_log: logs the requests; None for no log.
        shared_metrics: shares the metrics with other worker processes; None for a single process.
    """
    limits = limits or Limits()
    handlers = RouteHandlers(models, limits, access_log, shared_metrics)
    document = openapi_document(limits, [model.name for model in models], secured=bool(api_key))

    async def openapi(_: Request) -> Response:
        return json_response(document)

    routes = [*handlers.routes(), Route("/openapi.json", openapi)]
    if page:
        # The page needs no key, so it does not name the models of a server that requires one.
        names = [] if api_key else [model.name for model in models]
        public = openapi_document(limits, names, secured=bool(api_key))
        routes += web_page_routes(handlers.registry, public)
    middleware = [
        Middleware(
            RequestMiddleware,
            metrics=handlers.metrics,
            state=handlers.state,
            paths={route.endpoint: route.path for route in routes},
            access_log=access_log,
        )
    ]
    if hosts is not None:
        middleware.append(Middleware(HostMiddleware, hosts=hosts))
    if api_key:
        middleware.append(Middleware(ApiKeyMiddleware, key=api_key))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: http_exception_handler},
        lifespan=partial(handlers.lifespan, watch_seconds=watch_seconds),
    )
    app.state.server, app.state.registry = handlers.state, handlers.registry
    app.state.access_log = access_log
    return app


class RouteHandlers:
    """Handlers for the HTTP routes of the app: predictions, explanations, health and metrics."""

    def __init__(
        self,
        models: Sequence[ServedModel],
        limits: Limits,
        access_log: AccessLog | None = None,
        shared_metrics: SharedMetrics | None = None,
    ) -> None:
        self.limits, self.metrics, self.state = limits, Metrics(), ServerState()
        self.registry = ModelRegistry(models, limits, self.metrics)
        self.access_log, self.shared_metrics = access_log, shared_metrics

    def routes(self) -> list[Route]:
        """Return the HTTP routes of the app, the most frequently requested route first."""
        return [
            Route("/predict", self.predict, methods=["POST"]),
            Route("/explain", self.explain, methods=["POST"]),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.prometheus),
        ]

    @asynccontextmanager
    async def lifespan(self, _: Starlette, *, watch_seconds: float = 0) -> AsyncIterator[None]:
        """Warm up the models when the app starts and close their queues on shutdown."""
        for queues in self.registry.queues.values():
            await asyncio.to_thread(queues.warm_up)
        tasks = []
        if watch_seconds:
            tasks.append(asyncio.create_task(self.registry.watch(watch_seconds)))
        if self.shared_metrics is not None:
            self.shared_metrics.restore(self.metrics)
            tasks.append(asyncio.create_task(self.shared_metrics.save_regularly(self.metrics)))
        self.state.ready = True
        yield
        self.state.ready = False
        for task in tasks:
            task.cancel()
        self.registry.close()

    async def predict(self, request: Request) -> Response:
        """Handle the HTTP route ``POST /predict``, which returns a prediction for each text."""
        body = await read_request(request, PredictRequest, self.limits)
        queues = self._queues(request, body)
        with queues.in_use():
            rows = await self._run(request, queues.predict, body.all_texts)
        self.metrics.texts["/predict"] += len(rows)
        predictions = [
            prediction_json(
                queues.labels, row, queues.thresholds, top_k=int(body.top_k), proba=body.proba
            )
            for row in rows
        ]
        self.metrics.count_inputs(queues.model.name, rows, predictions)
        return json_response({**queues.identity, "predictions": predictions})

    async def explain(self, request: Request) -> Response:
        """Handle the HTTP route ``POST /explain``, which returns explanations of predictions."""
        body = await read_request(request, ExplainRequest, self.limits)
        queues, limit = self._queues(request, body), self.limits.characters
        label = _find_label(queues.labels, body.label)
        size = sum(map(len, body.all_texts))
        if size > limit:
            raise HTTPException(
                413,
                f"the texts have {size:,} characters together; one request may explain at most "
                f"{limit:,}. Send fewer texts.",
            )
        with queues.in_use():
            explanations = await self._run(request, queues.explain, body.all_texts)
        self.metrics.texts["/explain"] += len(explanations)
        identity = json.dumps(queues.identity).removesuffix("}")
        completed = ", ".join(explanation.complete(label) for explanation in explanations)
        content = f'{identity}, "explanations": [{completed}]}}'
        return Response(content, media_type="application/json")

    async def healthz(self, _: Request) -> Response:
        """Handle the HTTP route ``GET /healthz``, which reports that the process is running."""
        return json_response({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        """Handle the HTTP route ``GET /readyz``, which returns 503 during startup and shutdown."""
        if self.state.draining or not self.state.ready:
            return problem_response(503, "the server is starting or stopping.")
        return json_response({"status": "ready"})

    async def prometheus(self, _: Request) -> Response:
        """Handle the HTTP route ``GET /metrics``, which returns the app's Prometheus metrics."""
        shared = self.shared_metrics
        metrics = self.metrics if shared is None else shared.total(self.metrics)
        references = {
            model.name: (model.labels, model.predictor.validation)
            for model in self.registry.models
            if model.predictor.validation is not None
        }
        return Response(metrics.exposition(references), headers={"Content-Type": METRICS_TYPE})

    def _queues(self, request: Request, body: TextRequest) -> ModelQueues:
        name = body.model if body.model is not None else self.registry.default
        queues = self.registry.queues.get(name)
        if queues is None:
            known = ", ".join(self.registry.queues)
            raise HTTPException(422, f"model: this server has no such model. It has {known}.")
        if self.access_log is not None:
            self.access_log.describe(request.scope, queues.identity, body.all_texts)
        return queues

    async def _run(
        self, request: Request, batcher: Batcher[R], texts: Sequence[str]
    ) -> Sequence[R]:
        seconds = self.limits.seconds
        try:
            with CancelOnDisconnect(request.receive, seconds):
                return await batcher(texts)
        except ClientDisconnectedError:
            raise HTTPException(CLIENT_CLOSED_REQUEST, "the client disconnected.") from None
        except TimeoutError:
            detail = f"no result within {seconds:g} s. Send fewer texts, or try again later."
            raise HTTPException(503, detail, {"Retry-After": "5"}) from None
        except OverloadedError:
            detail = "too many texts are waiting. Try again in a moment."
            raise HTTPException(503, detail, {"Retry-After": "1"}) from None


def _find_label(labels: Sequence[str | int], label: str | int | None) -> str | int | None:
    """Return the label that an ``/explain`` request asks for, or None if it does not name one."""
    if label is None:
        return None
    found = next((one for one in labels if str(one) == str(label)), None)
    if found is None:
        known = ", ".join(map(str, labels[:20]))
        raise HTTPException(404, f"label: the model has no such label. It has {known}.")
    return found


class ClientDisconnectedError(Exception):
    """Error raised in a request handler whose client has disconnected."""


class CancelOnDisconnect:
    """Context manager that cancels its block when the client disconnects or a timeout expires.

    Use it after the request body has been read. It raises ``ClientDisconnectedError`` or
    ``TimeoutError``.

    Args:
        receive: the ASGI function that returns ``http.disconnect``.
        seconds: the time limit.
    """

    __slots__ = ("delay", "error", "receive", "request", "seconds", "timer", "watcher")

    def __init__(self, receive: Receive, seconds: float) -> None:
        self.receive, self.seconds = receive, seconds
        self.delay = min(WATCH_DELAY, seconds / 2)
        self.watcher: asyncio.Task[None] | None = None
        self.error: type[Exception] | None = None

    def __enter__(self) -> None:
        request, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert request is not None
        self.request = request
        self.timer = loop.call_later(self.delay, self._start)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.timer.cancel()
        if self.watcher is not None:
            self.watcher.cancel()
        if self.error is not None and kind is asyncio.CancelledError:
            self.request.uncancel()
            raise self.error from None

    def _start(self) -> None:
        self.watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        try:
            async with asyncio.timeout(self.seconds - self.delay):
                while (await self.receive())["type"] != "http.disconnect":
                    pass
            self.error = ClientDisconnectedError
        except TimeoutError:
            self.error = TimeoutError
        self.request.cancel()
