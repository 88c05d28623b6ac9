"""The page's files and the models that it runs, over HTTP."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from fastapi import FastAPI
from starlette.responses import FileResponse, Response

from lamatext.errors import ModelError
from lamatext.saved.format import WEIGHTS, ngrams_file
from lamatext.serve.http_errors import ProblemError
from lamatext.serve.registry import ServedModel
from lamatext.views.explanation_page import style
from lamatext.views.web_model import describe, runs_in_page

TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
FRESH = {"Cache-Control": "no-cache"}


def add_page(app: FastAPI, models: Sequence[ServedModel]) -> None:
    """Add ``/`` and its files, and the models for the page to run by itself."""

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return _file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return _file(name)

    _add_models(app, {model.name: model for model in models})


def _add_models(app: FastAPI, served: Mapping[str, ServedModel]) -> None:
    told = [
        {"name": name, "labels": model.labels, "runs_in_page": runs_in_page(model.folder)}
        for name, model in served.items()
    ]

    @app.get("/models", include_in_schema=False)
    async def list_models() -> Response:
        return _json(told)

    @app.get("/models/{name}", include_in_schema=False)
    def description(name: str) -> Response:
        try:
            return _json(describe(_named(served, name).folder))
        except ModelError as error:
            raise ProblemError(409, f"{error}") from None

    @app.get("/models/{name}/{part}", include_in_schema=False)
    def tensors(name: str, part: str) -> Response:
        folder = _named(served, name).folder
        file = {"weights": folder / WEIGHTS, "ngrams": ngrams_file(folder)}.get(part)
        if file is None or not file.is_file():
            raise ProblemError(404, "this model has no such part.")
        return FileResponse(file, headers=FRESH, media_type="application/octet-stream")


def _named(served: Mapping[str, ServedModel], name: str) -> ServedModel:
    if name not in served:
        raise ProblemError(404, f"this server has no such model. It has {', '.join(served)}.")
    return served[name]


def _json(value: object) -> Response:
    return Response(json.dumps(value), headers=FRESH, media_type="application/json")


def asset(name: str) -> str:
    """One of the page's files."""
    return assets()[name]


@cache
def assets() -> dict[str, str]:
    """All of the page's files by name."""
    folder = files("lamatext.views").joinpath("static")
    own = {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in TYPES
    }
    return {"house.css": style(), **own}


def _file(name: str) -> Response:
    if name not in assets():
        raise ProblemError(404, "there is no such file.")
    kind = TYPES[name.rpartition(".")[2]]
    return Response(asset(name), headers={**FRESH, "Content-Type": f"{kind}; charset=utf-8"})
