"""What surrounds every request: the clock, the headers and the key. Plain ASGI, for speed."""

import hmac
from collections.abc import Mapping
from time import perf_counter

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamatext.serve.http_errors import ProblemError, problem, unexpected
from lamatext.serve.prometheus import Metrics

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
OPEN = ("/", "/healthz", "/readyz")  # answered without a key
OPEN_UNDER = "/static/"


class Lifecycle:
    """Whether the server takes new work."""

    def __init__(self) -> None:
        self.ready = False
        self.draining = False


class Surroundings:
    """Counts and times each request, adds the security headers, answers when all else failed."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, lifecycle: Lifecycle) -> None:
        self.app, self.metrics, self.lifecycle = app, metrics, lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), *RAW_HEADERS]
                if self.lifecycle.draining:
                    headers.append((b"connection", b"close"))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            answer = unexpected(error)
            if status == 0:
                await answer(scope, receive, send_with_headers)
        finally:
            seconds = perf_counter() - start
            self.metrics.answered(_route(scope), _method(scope), status, seconds)


class Direct:
    """Answers what is asked most without the framework's layers, which take as long as the model.

    Args:
        app: answers all else.
        routes: by method and path; the function of each takes the request as it is.
    """

    def __init__(self, app: ASGIApp, *, routes: Mapping[tuple[str, str], Route]) -> None:
        self.app, self.routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route = self.routes.get((scope.get("method", ""), scope.get("path", "")))
        if route is None or scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        try:
            answer = await route.endpoint(Request(scope, receive))
        except ProblemError as error:
            answer = problem(error.status, error.detail, error.headers)
        await answer(scope, receive, send)


class ApiKey:
    """Lets in who knows the key, told as ``Authorization: Bearer KEY`` or ``X-API-Key: KEY``."""

    def __init__(self, app: ASGIApp, *, key: str) -> None:
        self.app, self.key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or _is_open(scope) or self._knows(scope):
            await self.app(scope, receive, send)
            return
        detail = "this server wants its key: Authorization: Bearer KEY, or X-API-Key: KEY."
        answer = problem(401, detail, {"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        headers = MutableHeaders(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        told = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(told.encode("latin-1"), self.key)


def _is_open(scope: Scope) -> bool:
    path: str = scope["path"]
    return path in OPEN or path.startswith(OPEN_UNDER)


def _route(scope: Scope) -> str:
    """The path as the server declares it: what a stranger asked for is never a metric's name."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "other"


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in {"GET", "HEAD", "POST", "OPTIONS"} else "other"
