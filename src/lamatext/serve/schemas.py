"""Schemas of request and response bodies: parsing, validation, size limits, OpenAPI document."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lamatext import __version__
from lamatext.label_thresholds import LabelThresholds
from lamatext.outliers import outlier_json
from lamatext.runtime.predictor import TextAssessment, round_probability
from lamatext.serve.http_errors import MEDIA_TYPE
from lamatext.settings import did_you_mean

MAX_TOP_K = 1000
LARGE_BODY = 16_384  # bytes; a larger body is checked for its structure before it is parsed
MAX_FIELD_NAME = 60  # characters of an unknown field's name in an error
TEXT_FIELDS = 'Send {"text": "…"} or {"texts": ["…", …]}'
FIELD_STRINGS = 16  # strings of a body that are not texts: field names and the model

SECURED_PATHS = ("/predict", "/explain", "/metrics")
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request, such as its body size, number of texts and processing time."""

    body: int = 1 << 20
    """Bytes of a request body."""
    texts: int = 256
    """Texts per request."""
    characters: int = 20_000
    """Characters of one text to predict, and of all texts of a request to explain."""
    queue: int = 4096
    """Texts that may wait for a model; requests beyond that get status 503."""
    seconds: float = 10.0
    """Time to compute the result of a request."""
    body_seconds: float = 10.0
    """Time to receive a request body."""
    threads: int = 0
    """Predictions computed in parallel by a model; 0 for one less than the usable cores."""


class TextRequest(BaseModel):
    """Schema of a request body that contains one or more texts and an optional model name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | None = None
    texts: Annotated[list[str] | None, FailFast()] = None  # stops at the first invalid text
    model: str | None = None

    @property
    def all_texts(self) -> list[str]:
        """All texts of the request body, whether sent as ``text`` or as ``texts``."""
        return self.texts if self.texts is not None else [self.text or ""]


def _whole_number(value: object) -> object:
    """Convert a whole number sent as a float in a request, such as 2.0, to an int.

    JSON has only one number type, so clients may send either form.
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ExplainRequest(TextRequest):
    """Schema of an ``/explain`` request body, with the texts and the label to explain."""

    label: Annotated[str | int | None, BeforeValidator(_whole_number)] = None
    """None explains the predicted label, or the most probable predicted labels."""


class PredictRequest(TextRequest):
    """Schema of a ``/predict`` request body, with the texts and options for the response."""

    top_k: float = 1.0  # JSON has one number type: 2.0 is the integer 2
    proba: bool = False


Body = TypeVar("Body", bound=TextRequest)


async def read_request(request: Request, schema: type[Body], limits: Limits) -> Body:
    """Read a request body and validate it against its schema and the size limits."""
    headers = dict(request.scope["headers"])  # raw bytes: faster than request.headers
    _check_media_type(headers)
    raw = await _read_body(request, headers.get(b"content-length", b""), limits)
    if len(raw) > LARGE_BODY:
        _check_structure(raw, limits)
    try:
        body = schema.model_validate_json(raw)
    except ValidationError as error:
        raise _invalid_body(error, schema) from None
    _check_fields(body)
    _check_sizes(body, limits)
    return body


def prediction_json(
    labels: Sequence[str | int],
    assessment: TextAssessment,
    thresholds: LabelThresholds | None = None,
    *,
    top_k: int,
    proba: bool,
) -> dict[str, object]:
    """Return the prediction for a text in the JSON schema of a ``/predict`` response.

    A multi-label model, which has thresholds, answers with a list of labels.
    """
    probabilities = assessment.probabilities
    exact = probabilities.tolist()
    rounded = list(map(round_probability, exact))
    prediction: dict[str, object]
    if thresholds is None:
        best = exact.index(max(exact))  # faster than numpy's argmax for a few classes
        prediction = {"label": labels[best], "probability": rounded[best]}
    else:
        decided = thresholds.decide(probabilities).tolist()
        prediction = {"labels": [labels[c] for c, is_set in enumerate(decided) if is_set]}
    if top_k > 1:
        order = np.argsort(-probabilities, kind="stable")[:top_k].tolist()
        prediction["top"] = [{"label": labels[c], "probability": rounded[c]} for c in order]
    if proba:
        prediction["probabilities"] = dict(zip(map(str, labels), rounded, strict=True))
    return prediction | assessment_json(assessment)


def assessment_json(assessment: TextAssessment) -> dict[str, object]:
    """Return the response fields ``unsure``, ``outlier_score`` and ``empty`` of one prediction."""
    fields: dict[str, object] = {}
    if assessment.is_unsure is not None:
        fields["unsure"] = assessment.is_unsure
    if assessment.outlier_score is not None:
        fields |= outlier_json(assessment.outlier_score)
    if assessment.empty:
        fields["empty"] = True
    return fields


def json_response(value: object, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with an ASCII-only JSON body, in which lone surrogates are escaped."""
    return Response(json.dumps(value), headers=headers, media_type="application/json")


def _check_media_type(headers: Mapping[bytes, bytes]) -> None:
    media_type, _, parameters = headers.get(b"content-type", b"").lower().partition(b";")
    charset = parameters.replace(b" ", b"")
    if media_type.strip() != b"application/json" or charset not in (b"", b"charset=utf-8"):
        raise HTTPException(415, "send JSON in UTF-8, with Content-Type: application/json.")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise HTTPException(415, "send the body uncompressed, without Content-Encoding.")


async def _read_body(request: Request, length: bytes, limits: Limits) -> bytes:
    """Read a request body, raising an HTTP error as soon as it exceeds the size limit."""
    if length.isdigit() and int(length) > limits.body:
        raise _body_too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise HTTPException(400, "the connection closed before the body was complete.")
                body += message.get("body", b"")
                if len(body) > limits.body:
                    raise _body_too_large(limits)
                more = message.get("more_body", False)
    except TimeoutError:
        detail = f"the body did not arrive in {limits.body_seconds:g} s."
        raise HTTPException(408, detail, {"Connection": "close"}) from None
    return bytes(body)


def _body_too_large(limits: Limits) -> HTTPException:
    detail = f"a body may have at most {limits.body:,} bytes. Send fewer texts at a time."
    return HTTPException(413, detail, {"Connection": "close"})


def _check_structure(raw: bytes, limits: Limits) -> None:
    """Refuse a large request body that contains many small JSON values instead of texts.

    Parsing a megabyte of numbers, keys or empty strings, and listing what is wrong with each of
    them, would block all other requests for seconds. Counting quotes takes about a millisecond.
    """
    strings = limits.texts + FIELD_STRINGS
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    pieces = unescaped.split(b'"', 2 * strings)
    if len(pieces) > 2 * strings:
        raise HTTPException(
            422, f"texts: the body has over {strings:,} strings, expected 1 to {limits.texts:,}."
        )
    outside = sum(map(len, pieces[::2]))
    if outside > LARGE_BODY + 64 * limits.texts:
        raise HTTPException(
            422, f"the body has {outside:,} characters outside its strings. Send only texts."
        )


def _invalid_body(error: ValidationError, schema: type[TextRequest]) -> HTTPException:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return HTTPException(400, f"the body is not JSON: {first['msg']}.")
    if not first["loc"]:
        return HTTPException(422, f"the body is not a JSON object. {TEXT_FIELDS}.")
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        names, short = list(schema.model_fields), field[:MAX_FIELD_NAME]
        detail = f"unknown field {short!r}.{did_you_mean(short, names)} Known: {', '.join(names)}."
        return HTTPException(422, detail)
    return HTTPException(422, f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}.")


def _check_fields(body: TextRequest) -> None:
    if body.text is None and body.texts is None:
        raise HTTPException(422, f"{TEXT_FIELDS}.")
    if body.text is not None and body.texts is not None:
        raise HTTPException(422, 'send either "text": "…" or "texts": ["…", …], not both.')
    if any(getattr(body, field) is None for field in body.model_fields_set):
        raise HTTPException(422, "a field is null. Leave it out instead.")


def _check_sizes(body: TextRequest, limits: Limits) -> None:
    texts = body.all_texts
    if not 1 <= len(texts) <= limits.texts:
        raise HTTPException(422, f"texts has {len(texts):,}, expected 1 to {limits.texts:,}.")
    for index, text in enumerate(texts):
        if len(text) > limits.characters:
            raise HTTPException(
                422,
                f"text {index} has {len(text):,} characters, expected at most "
                f"{limits.characters:,}. Split it.",
            )
    if isinstance(body, PredictRequest) and not (
        body.top_k.is_integer() and 1 <= body.top_k <= MAX_TOP_K
    ):
        raise HTTPException(422, f"top_k: expected a whole number from 1 to {MAX_TOP_K}.")


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
