"""``lamatext serve``: serve saved models over HTTP, with a web page."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import output
from lamatext.errors import ConfigError, require

NAME = "serve"
EXAMPLE = "Example: lamatext serve runs/reviews --open"


def run(  # noqa: PLR0913 - one argument per option of the command
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            help="Folders written by lamatext train; the first is the default model.",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")
    ] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="LAMATEXT_API_KEY", help="Key that clients must send."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Name that clients may use for this server in the Host header; repeat for more, "
            "* allows any. Allowed by default: localhost, 127.0.0.1, [::1] and --host; any name "
            "with --host 0.0.0.0.",
        ),
    ] = None,
    page: Annotated[bool, typer.Option(help="Serve the web page at /.")] = True,
    open_: Annotated[bool, typer.Option("--open", help="Open the web page in a browser.")] = False,
    drain: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds to accept new connections after a signal to stop, before closing."
        ),
    ] = 1.0,
    max_connections: Annotated[
        int,
        typer.Option(min=1, help="Open connections; a new one replaces the oldest unused one."),
    ] = 1000,
    header_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to receive the headers of a request.")
    ] = 10.0,
    body_timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds to receive a body, or to send 64 kB of a response."),
    ] = 10.0,
    idle_timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds that an unused connection stays open."),
    ] = 75.0,
) -> None:
    """Serve saved models over HTTP, with a JSON API (/predict, /explain) and a web page."""
    require("starlette", extra="serve", purpose="lamatext serve")
    require("uvicorn", extra="serve", purpose="lamatext serve")
    require("httptools", extra="serve", purpose="lamatext serve")
    from lamatext.serve.app import create_app
    from lamatext.serve.connection_limits import ConnectionLimits
    from lamatext.serve.middleware import allowed_hosts
    from lamatext.serve.registry import load_models
    from lamatext.serve.schemas import Limits
    from lamatext.serve.server import run_server

    if api_key is not None and not (api_key.isascii() and api_key.strip()):
        raise ConfigError("--api-key: expected a key of printable ASCII characters.")
    hosts = allowed_hosts(host, allow_host or ())
    connection_limits = ConnectionLimits(
        connections=max_connections,
        header_seconds=header_timeout,
        body_seconds=body_timeout,
        idle_seconds=idle_timeout,
    )
    app = create_app(
        load_models(models),
        limits=Limits(body_seconds=body_timeout),
        api_key=api_key,
        hosts=hosts,
        page=page,
    )
    url_host = f"[{host}]" if ":" in host else host

    def announce(port: int) -> None:
        address = f"http://{url_host}:{port}"
        output.message(f"Serving {', '.join(map(str, models))} at {address}")
        output.next_steps(
            f'curl {address}/predict --json \'{{"text": "…"}}\'',
            f"{address}/" + (" in a browser" if page else "openapi.json"),
        )
        if open_ and page:
            webbrowser.open(f"{address}/")

    run_server(app, host=host, port=port, drain=drain, limits=connection_limits, on_start=announce)
