"""The server: predict and explain over HTTP, batched, limited, counted; and the page.

POST /predict   POST /explain   GET /models   GET /healthz   GET /readyz   GET /metrics   GET /
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Route

from lamatext import __version__
from lamatext.serve.http_errors import ProblemError, add_handlers, problem
from lamatext.serve.limits import Limits
from lamatext.serve.middleware import ApiKey, Direct, Lifecycle, Surroundings
from lamatext.serve.openapi import describe_explain, describe_predict, describe_status, secured
from lamatext.serve.prometheus import MEDIA_TYPE as METRICS_TYPE
from lamatext.serve.prometheus import Metrics
from lamatext.serve.registry import Queues, ServedModel, told
from lamatext.serve.request_batching import Batcher, OverloadedError
from lamatext.serve.schemas import PredictRequest, TextRequest, read_request
from lamatext.serve.web_page import add_page

R = TypeVar("R")


def create_app(
    models: Sequence[ServedModel],
    *,
    limits: Limits | None = None,
    api_key: str | None = None,
    page: bool = True,
) -> FastAPI:
    """The server of ``models``, of which the first answers where none is named."""
    service = Service(models, limits or Limits())
    app = FastAPI(
        title="lamatext",
        version=__version__,
        description="Text classification that shows which words decided.",
        docs_url=None,  # the usual page of docs loads scripts from elsewhere
        redoc_url=None,
        lifespan=service.lifespan,
    )
    app.state.lifecycle = service.lifecycle
    service.add_routes(app)
    if page:
        add_page(app, models)
    add_handlers(app)
    app.add_middleware(Direct, routes=plain_posts(app))
    if api_key:
        app.add_middleware(ApiKey, key=api_key)
        secured(app)
    app.add_middleware(Surroundings, metrics=service.metrics, lifecycle=service.lifecycle)
    return app


class PlainRoute(APIRoute):
    """Hands the request to its function as it is: reading and checking it is ours."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function itself."""
        return self.endpoint


def plain_posts(app: FastAPI) -> dict[tuple[str, str], Route]:
    """What is asked most: the paths that texts are posted to."""
    return {
        ("POST", route.path): route
        for route in app.routes
        if isinstance(route, PlainRoute) and "POST" in (route.methods or ())
    }


class Service:
    """The models at work."""

    def __init__(self, models: Sequence[ServedModel], limits: Limits) -> None:
        self.limits, self.metrics, self.lifecycle = limits, Metrics(), Lifecycle()
        self.queues = {model.name: Queues(model, limits, self.metrics) for model in models}
        self.first = models[0].name

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """From the first loading to the last answer."""
        for queues in self.queues.values():
            await asyncio.to_thread(queues.warm_up)
        self.lifecycle.ready = True
        yield
        self.lifecycle.ready = False
        for queues in self.queues.values():
            queues.close()

    def add_routes(self, app: FastAPI) -> None:
        """Declare what there is."""
        names, add = (
            [*self.queues],
            partial(app.router.add_api_route, route_class_override=PlainRoute),
        )
        predict, explain = (
            describe_predict(self.limits, names),
            describe_explain(self.limits, names),
        )
        add("/predict", self.predict, methods=["POST"], summary="The label", **predict)
        add("/explain", self.explain, methods=["POST"], summary="The reasons", **explain)
        for path, answer, summary in (
            ("/healthz", self.health, "Whether the server runs"),
            ("/readyz", self.readiness, "Whether the server takes requests"),
            ("/metrics", self.count, "Counters for Prometheus"),
        ):
            add(path, answer, methods=["GET"], summary=summary, **describe_status(path))
            add(path, answer, methods=["HEAD"], include_in_schema=False)  # some balancers ask so

    async def predict(self, request: Request) -> Response:
        """The most probable label of each text."""
        body = await read_request(request, PredictRequest, self.limits)
        queues = self._queues(body)
        rows = await self._read(queues.predict, body.all_texts)
        self.metrics.texts["/predict"] += len(rows)
        predictions = [
            told(queues.labels, row, top_k=int(body.top_k), proba=body.proba) for row in rows
        ]
        return _json({"model": queues.model.name, "predictions": predictions})

    async def explain(self, request: Request) -> Response:
        """The weight and contribution of each word of each text."""
        body = await read_request(request, TextRequest, self.limits)
        queues, most = self._queues(body), self.limits.characters
        size = sum(map(len, body.all_texts))
        if size > most:
            detail = f"the texts have {size:,} characters together, at most {most:,} are explained"
            raise ProblemError(413, f"{detail} at a time. Send fewer texts.")
        found = await self._read(queues.explain, body.all_texts)
        self.metrics.texts["/explain"] += len(found)
        name = json.dumps(queues.model.name)
        whole = f'{{"model": {name}, "explanations": [{", ".join(found)}]}}'
        return Response(whole, media_type="application/json")

    async def health(self, _: Request) -> Response:
        """Always the same while the server runs."""
        return _json({"status": "alive"})

    async def readiness(self, _: Request) -> Response:
        """Ready from the loading of the models until the server is told to stop."""
        if self.lifecycle.draining or not self.lifecycle.ready:
            return problem(503, "the server is starting or stopping.")
        return _json({"status": "ready"})

    async def count(self, _: Request) -> Response:
        """The counters."""
        return Response(self.metrics.text(), headers={"Content-Type": METRICS_TYPE})

    def _queues(self, body: TextRequest) -> Queues:
        name = body.model if body.model is not None else self.first
        if name not in self.queues:
            known = ", ".join(self.queues)
            raise ProblemError(422, f"model: this server has no such model. It has {known}.")
        return self.queues[name]

    async def _read(self, batcher: Batcher[R], texts: Sequence[str]) -> Sequence[R]:
        seconds = self.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                return await batcher(texts)
        except TimeoutError:
            detail = f"no answer within {seconds:g} s. Send fewer texts, or try again later."
            raise ProblemError(503, detail, {"Retry-After": "5"}) from None
        except OverloadedError:
            detail = "too many texts are waiting. Try again in a moment."
            raise ProblemError(503, detail, {"Retry-After": "1"}) from None


def _json(value: object) -> Response:
    return Response(json.dumps(value), media_type="application/json")
