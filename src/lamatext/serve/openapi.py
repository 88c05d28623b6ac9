"""What ``/openapi.json`` says of each route, examples included."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from lamatext.serve.http_errors import MEDIA_TYPE, SCHEMA
from lamatext.serve.limits import Limits
from lamatext.serve.schemas import PredictRequest, TextRequest, body_schema

Description = dict[str, Any]

LABEL = {"type": ["string", "integer"]}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
NUMBERS = {"type": "array", "items": {"type": "number"}}
ROWS = {"type": "array", "items": NUMBERS}
REASONS = {
    400: "The body is not JSON",
    401: "The key is missing or wrong",
    405: "Another method",
    408: "The body arrived too slowly",
    413: "The body is too large",
    415: "The body is of another type",
    422: "The body says something else than is described here",
    500: "The server failed",
    503: "The server is busy, or stops",
}
ONE = {"summary": "one text", "value": {"text": "a thoughtful, funny film"}}
MANY = {
    "summary": "many texts",
    "value": {"texts": ["a thoughtful, funny film", "dull and far too long"]},
}


def describe_predict(limits: Limits, models: Sequence[str]) -> Description:
    """``POST /predict``."""
    every = {"texts": ["dull and far too long"], "top_k": 2, "proba": True}
    examples = {"one": ONE, "many": MANY, "all": {"summary": "every option", "value": every}}
    ranked = {
        "type": "object",
        "required": ["label", "probability"],
        "properties": {"label": LABEL, "probability": SHARE},
    }
    prediction = {
        **ranked,
        "properties": {
            **ranked["properties"],  # type: ignore[dict-item]
            "top": {"type": "array", "items": ranked},
            "probabilities": {"type": "object", "additionalProperties": SHARE},
        },
    }
    answer = _answer("predictions", prediction)
    answer["application/json"]["example"] = {
        "model": models[0],
        "predictions": [{"label": "pos", "probability": 0.974}],
    }
    return _post(body_schema(limits, models, PredictRequest), examples, answer)


def describe_explain(limits: Limits, models: Sequence[str]) -> Description:
    """``POST /explain``."""
    explanation = {
        "type": "object",
        "required": ["text", "predicted", "labels", "probabilities", "words", "spans"],
        "properties": {
            "text": {"type": "string"},
            "predicted": LABEL,
            "labels": {"type": "array", "items": LABEL},
            "probabilities": NUMBERS,
            "words": {"type": "array", "items": {"type": "string"}},
            "spans": {"description": "Start and end in code points.", **ROWS},
            "weights": {"description": "A row for each head.", "anyOf": [ROWS, {"type": "null"}]},
            "pooled": {"anyOf": [NUMBERS, {"type": "null"}]},
            "contributions": {"description": "A row for each label.", **ROWS},
            "relative": {"description": "The same less the mean over the labels.", **ROWS},
            "base": NUMBERS,
            "method": {"enum": ["contribution", "occlusion"]},
        },
    }
    schema = body_schema(limits, models, TextRequest)
    return _post(schema, {"one": ONE, "many": MANY}, _answer("explanations", explanation))


def describe_status(path: str) -> Description:
    """The routes that machines look at."""
    media = {"text/plain": {}} if path == "/metrics" else _json_of({"type": "object"})
    responses: dict[int, Description] = {200: {"description": "Yes", "content": media}}
    problems = (401, 405) if path == "/metrics" else (405, 503)
    responses |= {status: _problem(status) for status in problems}
    return {"response_class": Response, "responses": responses}


def secured(app: FastAPI) -> None:
    """Say in the description that a key is wanted."""
    plain = app.openapi

    def with_key() -> dict[str, Any]:
        schema = plain()
        schema.setdefault("components", {})["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        for path in ("/predict", "/explain", "/metrics"):
            for operation in schema["paths"][path].values():
                operation["security"] = [{"bearer": []}, {"key": []}]
        return schema

    app.openapi = with_key  # type: ignore[method-assign]


def _post(schema: Description, examples: Description, answer: Description) -> Description:
    content = {"application/json": {"schema": schema, "examples": examples}}
    responses: dict[int, Description] = {
        200: {"description": "One result for each text, in their order", "content": answer}
    }
    responses |= {status: _problem(status) for status in REASONS}
    return {
        "response_class": Response,
        "responses": responses,
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def _answer(name: str, item: Description) -> Description:
    return _json_of(
        {
            "type": "object",
            "required": ["model", name],
            "properties": {
                "model": {"type": "string"},
                name: {"type": "array", "items": item},
            },
        }
    )


def _json_of(schema: Description) -> Description:
    return {"application/json": {"schema": schema}}


def _problem(status: int) -> Description:
    return {"description": REASONS[status], "content": {MEDIA_TYPE: {"schema": SCHEMA}}}
