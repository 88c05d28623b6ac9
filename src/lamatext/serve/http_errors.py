"""Errors as ``application/problem+json`` (RFC 9457): what is wrong, and what to do."""

import json
import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "examples": ["about:blank"]},
        "title": {"type": "string", "examples": ["Unprocessable Entity"]},
        "status": {"type": "integer", "examples": [422]},
        "detail": {"type": "string", "examples": ["give either text or texts, not both."]},
    },
}
HELP = {
    404: "there is nothing here. GET /openapi.json lists what there is.",
    405: "this method is not allowed here. GET /openapi.json lists what is.",
}

log = logging.getLogger("lamatext.serve")


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The answer to a request that failed."""
    told = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return Response(json.dumps(told), status, headers, MEDIA_TYPE)


def add_handlers(app: FastAPI) -> None:
    """Make every error of ``app`` a problem."""

    @app.exception_handler(ProblemError)
    async def own(_: Request, error: ProblemError) -> Response:
        return problem(error.status, error.detail, error.headers)

    @app.exception_handler(HTTPException)
    async def of_the_framework(_: Request, error: HTTPException) -> Response:
        detail = HELP.get(error.status_code, str(error.detail))
        return problem(error.status_code, detail, dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def of_a_parameter(_: Request, error: RequestValidationError) -> Response:
        return problem(422, "; ".join(str(one["msg"]) for one in error.errors()))


def unexpected(error: BaseException) -> Response:
    """The answer when the fault is ours; the log names the kind of error, never a text."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    log.error("%s at %s", type(error).__name__, " > ".join(frames[-4:]))
    return problem(500, "the server failed on this request; its log says where.")
