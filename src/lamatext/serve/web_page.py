"""Routes of the web page (its static files and models for its JavaScript) and of ``/docs``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from lamatext.errors import ModelError
from lamatext.saved.format import WEIGHTS, load_config, ngrams_file
from lamatext.serve.registry import ModelRegistry
from lamatext.serve.schemas import json_response
from lamatext.views.api_docs import api_docs_page
from lamatext.views.html_templates import MEDIA_TYPES, static_files
from lamatext.views.web_model import describe_model

REVALIDATE = {"Cache-Control": "no-cache"}


def web_page_routes(registry: ModelRegistry, document: Mapping[str, Any]) -> list[Route]:
    """Return the Starlette routes of the web page and of the API documentation.

    Args:
        registry: the served models.
        document: the OpenAPI document.
    """
    handlers = WebPageHandlers(registry)
    docs = api_docs_page(document)

    async def docs_page(_: Request) -> Response:
        return _text_response(docs, MEDIA_TYPES["html"])

    return [
        Route("/", handlers.index),
        Route("/docs", docs_page),
        Route("/static/{name}", handlers.static_file),
        Route("/models", handlers.model_list),
        Route("/models/{name}", handlers.model_description),
        Route("/models/{name}/{tensors}", handlers.model_tensors),
    ]


class WebPageHandlers:
    """Request handlers of the web page: HTML, static files, model descriptions and tensors."""

    def __init__(self, registry: ModelRegistry) -> None:
        self.registry = registry
        self.folders = {model.name: model.folder for model in registry.models}

    async def index(self, _: Request) -> Response:
        """Serve the HTML of the web page at ``GET /``."""
        return _file_response("index.html")

    async def static_file(self, request: Request) -> Response:
        """Serve a static file of the web page at ``GET /static/NAME``."""
        return _file_response(request.path_params["name"])

    async def model_list(self, _: Request) -> Response:
        """Handle ``GET /models``: list the names and labels of all models for the web page."""
        models = [
            {
                "name": model.name,
                "version": model.version,
                "hash": model.hash,
                "labels": model.labels,
                **model.page_facts,
            }
            for model in self.registry.models
        ]
        return json_response(models, REVALIDATE)

    def model_description(self, request: Request) -> Response:
        """Serve a model's JSON description to the web page at ``GET /models/NAME``."""
        try:
            return json_response(describe_model(self._folder(request)), REVALIDATE)
        except ModelError as error:
            raise HTTPException(409, f"{error}") from None

    def model_tensors(self, request: Request) -> Response:
        """Send a model's weights or n-grams to the web page: ``GET /models/NAME/TENSORS``."""
        folder = self._folder(request)
        try:
            ngrams = ngrams_file(folder, load_config(folder))
        except ModelError as error:
            raise HTTPException(409, f"{error}") from None
        files = {"weights": folder / WEIGHTS, "ngrams": ngrams}
        file = files.get(request.path_params["tensors"])
        if file is None or not file.is_file():
            raise HTTPException(404, "this model has no such tensors.")
        return FileResponse(file, headers=REVALIDATE, media_type="application/octet-stream")

    def _folder(self, request: Request) -> Path:
        name = request.path_params["name"]
        if name not in self.folders:
            known = ", ".join(self.folders)
            raise HTTPException(404, f"this server has no such model. It has {known}.")
        return self.folders[name]


def _file_response(name: str) -> Response:
    if name not in static_files():
        raise HTTPException(404, "there is no such file.")
    return _text_response(static_files()[name], MEDIA_TYPES[name.rpartition(".")[2]])


def _text_response(content: str, media_type: str) -> Response:
    headers = {**REVALIDATE, "Content-Type": f"{media_type}; charset=utf-8"}
    return Response(content, headers=headers)
