"""HTTP error responses in ``application/problem+json`` (RFC 9457): the problem and its remedy."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
CLIENT_CLOSED_REQUEST = 499  # not a standard status; only metrics ever show it
ROUTING_DETAILS = {  # replace the bare phrases that Starlette's router gives
    "Not Found": "this path does not exist. GET /openapi.json lists the routes.",
    "Method Not Allowed": "this path does not allow this method. GET /openapi.json lists them.",
}

log = logging.getLogger("lamatext.serve")


def problem_response(
    status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an HTTP error response with an ``application/problem+json`` body."""
    closed = status == CLIENT_CLOSED_REQUEST
    problem = {
        "type": "about:blank",
        "title": "Client Closed Request" if closed else HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return Response(json.dumps(problem), status, headers, MEDIA_TYPE)


async def http_exception_handler(_: Request, error: Exception) -> Response:
    """Convert a Starlette ``HTTPException`` into a ``problem+json`` error response."""
    assert isinstance(error, HTTPException)
    detail = ROUTING_DETAILS.get(error.detail, error.detail)
    return problem_response(error.status_code, detail, error.headers)


def internal_error_response(error: BaseException) -> Response:
    """Log the type and location of an unexpected error and return an HTTP 500 response.

    The error's message is not logged, because it may quote a client's text.
    """
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    log.error("%s at %s", type(error).__name__, " > ".join(frames[-4:]))
    return problem_response(500, "the server failed on this request; its log has the details.")
