"""The OpenAPI document of a server: ``openapi.json``, completed with its models and limits."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from lamatext import __version__
from lamatext.serve.http_errors import MEDIA_TYPE
from lamatext.serve.schemas import MAX_TOP_K, Limits

SECURED_PATHS = ("/predict", "/explain", "/metrics")
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def openapi_document(limits: Limits, models: Sequence[str], *, secured: bool) -> dict[str, Any]:
    """Return the server's OpenAPI document, with its actual limits and model names.

    Args:
        limits: request limits, stated in the schemas.
        models: names of the served models.
        secured: whether the server requires an API key.
    """
    template = files("lamatext.serve").joinpath("openapi.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(template)
    document["info"]["version"] = __version__
    components, paths = document["components"], document["paths"]
    schemas = components["schemas"]
    schemas["Text"]["maxLength"] = limits.characters
    schemas["Texts"]["maxItems"] = limits.texts
    schemas["TopK"]["maximum"] = MAX_TOP_K
    schemas["ModelName"]["enum"] = [*models]
    for status, response in components["responses"].items():
        if status.isdecimal():
            problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
            response["content"] = {MEDIA_TYPE: problem}
    if secured:
        components["securitySchemes"] = SECURITY_SCHEMES
        for path in SECURED_PATHS:
            for operation in paths[path].values():
                operation["security"] = [{name: []} for name in SECURITY_SCHEMES]
    return document
