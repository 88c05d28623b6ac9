"""ASGI middleware: request metrics, security headers, ``Host`` header check, API key check."""

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamatext.errors import ConfigError
from lamatext.serve.access_log import AccessLog
from lamatext.serve.http_errors import internal_error_response, problem_response
from lamatext.serve.prometheus import Metrics

SECURITY_HEADERS = {
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
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
METHODS = {"GET", "HEAD", "POST", "OPTIONS"}  # any other is counted as "other"
PUBLIC_PATHS = ("/", "/docs", "/healthz", "/readyz")  # need no API key
PUBLIC_FOLDER = "/static/"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
ANY_ADDRESS = ("", "0.0.0.0", "::")  # these listen on all addresses of the machine
MAX_REMEMBERED_HOSTS = 100
HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


class ServerState:
    """State flags of the server (``ready`` and ``draining``) for the middleware and ``/readyz``."""

    def __init__(self) -> None:
        self.ready = False
        self.draining = False


class RequestMiddleware:
    """Middleware that times and counts requests, adds security headers and catches errors.

    Args:
        app: the next ASGI application.
        metrics: counts the requests.
        state: while it is draining, every response closes its connection.
        paths: path of each route by its handler. Metrics are labelled with these, never with
            the path that a client sent.
        access_log: logs the requests; None for no log.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        state: ServerState,
        paths: Mapping[Any, str],
        access_log: AccessLog | None = None,
    ) -> None:
        self.app, self.metrics, self.state, self.paths = app, metrics, state, paths
        self.access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the next application, add response headers and record metrics."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                if all(name != b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                if self.state.draining:
                    headers.append((b"connection", b"close"))
                headers += RAW_HEADERS
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            response = internal_error_response(error)
            if status == 0:
                await response(scope, receive, send_with_headers)
        finally:
            self._record(scope, status, perf_counter() - start)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        path = self.paths.get(scope.get("endpoint"), "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.count_request(path, method, status, seconds)
        if self.access_log is not None:
            self.access_log.write(scope, status, seconds)


class HostMiddleware:
    """Middleware that rejects requests whose ``Host`` header is not an allowed name.

    In a DNS rebinding attack, a web site changes the address of its own name to 127.0.0.1, so
    that its scripts can read from a server on the visitor's machine. The browser still sends the
    name of the web site in the ``Host`` header.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, frozenset(hosts)
        self.accepted: set[bytes] = set()  # values of earlier requests, so that few are parsed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request if its ``Host`` header is allowed, otherwise return 400 or 421."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        values = [value for name, value in scope["headers"] if name == b"host"]
        if len(values) == 1 and values[0] in self.accepted:
            await self.app(scope, receive, send)
            return
        match = HOST.fullmatch(values[0].decode("latin-1").lower()) if len(values) == 1 else None
        if match is None:
            response = problem_response(400, "send one Host header with a name and a port.")
        elif match[1].removesuffix(".") not in self.hosts:
            detail = "this server has another name. Allow this one with --allow-host NAME."
            response = problem_response(421, detail)
        else:
            if len(self.accepted) < MAX_REMEMBERED_HOSTS:
                self.accepted.add(values[0])
            await self.app(scope, receive, send)
            return
        await response(scope, receive, send)


def allowed_hosts(host: str, names: Sequence[str] = ()) -> frozenset[str] | None:
    """Return the ``Host`` header values that the middleware allows, or None if it allows all.

    Args:
        host: the address that the server listens on. Its name and the loopback names are allowed;
            an address such as 0.0.0.0 allows any name if ``names`` is empty.
        names: further names to allow; ``*`` allows any.
    """
    if "*" in names or (host in ANY_ADDRESS and not names):
        return None
    own = () if host in ANY_ADDRESS else (host,)
    return LOOPBACK_HOSTS | {_normalize_host(name) for name in (*own, *names)}


def _normalize_host(name: str) -> str:
    lower = name.lower().removesuffix(".")
    bracketed = f"[{lower}]" if ":" in lower and not lower.startswith("[") else lower
    match = HOST.fullmatch(bracketed)
    if match is None or match[1] != bracketed:
        raise ConfigError(
            f"--allow-host {name!r}: expected a host name or address without a port, for example "
            "reviews.example.org."
        )
    return bracketed


class ApiKeyMiddleware:
    """Middleware that requires an API key in the ``Authorization`` or ``X-API-Key`` header."""

    def __init__(self, app: ASGIApp, *, key: str) -> None:
        self.app, self.key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request if its path is public or its API key is valid, otherwise return 401."""
        if scope["type"] != "http" or _is_public(scope["path"]) or self._has_key(scope):
            await self.app(scope, receive, send)
            return
        detail = "send the server's API key: Authorization: Bearer KEY, or X-API-Key: KEY."
        response = problem_response(401, detail, {"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(key.encode("latin-1"), self.key)


def _is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)
