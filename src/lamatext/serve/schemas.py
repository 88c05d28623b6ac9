"""What a request may say: read, checked, and described for OpenAPI."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect, Request

from lamatext.serve.http_errors import ProblemError
from lamatext.serve.limits import Limits

MOST_LABELS = 1000  # the largest top_k


class TextRequest(BaseModel):
    """One text or many, and which of the served models is to read them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | None = None
    texts: list[str] | None = None
    model: str | None = None

    @property
    def all_texts(self) -> list[str]:
        """The texts, however they were given."""
        return self.texts if self.texts is not None else [self.text or ""]


class PredictRequest(TextRequest):
    """And how much to say of each."""

    top_k: float = 1.0
    proba: bool = False


Body = TypeVar("Body", bound=TextRequest)


async def read_request(request: Request, kind: type[Body], limits: Limits) -> Body:
    """The checked body of ``request``."""
    _check_media_type(request)
    raw = await _read_body(request, limits)
    try:
        body = kind.model_validate_json(raw)
    except ValidationError as error:
        raise _as_problem(error) from None
    _check(body, limits)
    return body


def body_schema(limits: Limits, models: Sequence[str], kind: type[TextRequest]) -> dict[str, Any]:
    """The JSON schema of a body: exactly one of ``text`` and ``texts``."""
    text = {"type": "string", "maxLength": limits.characters}
    options: dict[str, Any] = {
        "model": {"enum": [*models], "description": "Of the served models; the first unless told."}
    }
    if kind is PredictRequest:
        options["top_k"] = {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_LABELS,
            "default": 1,
            "description": "How many labels to name, the most probable first.",
        }
        options["proba"] = {
            "type": "boolean",
            "default": False,
            "description": "Whether to say the probability of every label.",
        }
    many = {"type": "array", "items": text, "minItems": 1, "maxItems": limits.texts}
    return {"oneOf": [_with(options, {"text": text}), _with(options, {"texts": many})]}


def _with(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [*given],
        "properties": {**given, **options},
        "additionalProperties": False,
    }


def _check_media_type(request: Request) -> None:
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    charset = rest.replace(" ", "").lower()
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise ProblemError(415, "send JSON in UTF-8, with Content-Type: application/json.")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise ProblemError(415, "send the body as it is, without Content-Encoding.")


async def _read_body(request: Request, limits: Limits) -> bytes:
    """The bytes of a body; no more of them are held than the limit."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limits.body:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > limits.body:
                    raise _too_large(limits)
    except TimeoutError:
        raise ProblemError(408, f"the body did not arrive in {limits.seconds:g} s.") from None
    except ClientDisconnect:
        raise ProblemError(400, "the connection was closed before the body was whole.") from None
    return bytes(body)


def _too_large(limits: Limits) -> ProblemError:
    detail = f"the body may have {limits.body:,} bytes. Send fewer texts at a time."
    return ProblemError(413, detail, {"Connection": "close"})


def _as_problem(error: ValidationError) -> ProblemError:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return ProblemError(400, f"the body is not JSON: {first['msg']}.")
    where = ".".join(str(part) for part in first["loc"]) or "the body"
    return ProblemError(422, f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}.")


def _check(body: TextRequest, limits: Limits) -> None:
    if body.text is None and body.texts is None:
        raise ProblemError(422, 'give "text": "…" or "texts": ["…", …].')
    if body.text is not None and body.texts is not None:
        raise ProblemError(422, 'give either "text": "…" or "texts": ["…", …], not both.')
    if {"text", "texts", "model"} & {k for k in body.model_fields_set if getattr(body, k) is None}:
        raise ProblemError(422, "leave out what is null.")
    if not 1 <= len(body.all_texts) <= limits.texts:
        told = f"texts has {len(body.all_texts):,}, expected 1 to {limits.texts:,}."
        raise ProblemError(422, told)
    for place, text in enumerate(body.all_texts):
        if len(text) > limits.characters:
            told = f"text {place} has {len(text):,} characters, at most {limits.characters:,} are"
            raise ProblemError(422, f"{told} read. Send it in parts.")
    if isinstance(body, PredictRequest):
        _check_top_k(body.top_k)


def _check_top_k(value: float) -> None:
    """JSON has one kind of number: 2.0 is the integer 2."""
    if not (value.is_integer() and 1 <= value <= MOST_LABELS):
        raise ProblemError(422, f"top_k: expected a whole number from 1 to {MOST_LABELS}.")
