"""``lamatext serve``: the model over HTTP, and its page."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import output
from lamatext.errors import ConfigError, require

NAME = "serve"
EXAMPLE = "Example: lamatext serve runs/reviews --open"


def run(  # noqa: PLR0913 - one argument for each option of the verb
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            help="Folders written by lamatext train; the first answers where none is named.",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="LAMATEXT_API_KEY", help="Answer only requests that know this key."),
    ] = None,
    page: Annotated[bool, typer.Option(help="Show the page at /.")] = True,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    drain: Annotated[
        float,
        typer.Option(min=0, help="Seconds that requests are still taken once told to stop."),
    ] = 1.0,
) -> None:
    """Answer POST /predict and /explain, and show a page to type at."""
    require("fastapi", extra="serve", purpose="lamatext serve")
    require("uvicorn", extra="serve", purpose="lamatext serve")
    from lamatext.serve.app import create_app
    from lamatext.serve.registry import load_models
    from lamatext.serve.server import run as serve

    if api_key is not None and not (api_key.isascii() and api_key.strip()):
        raise ConfigError("--api-key: expected a key of printable ASCII characters.")
    app = create_app(load_models(models), api_key=api_key, page=page)
    shown = f"[{host}]" if ":" in host else host

    def started(port: int) -> None:
        address = f"http://{shown}:{port}"
        print(f"Serving {', '.join(map(str, models))} at {address}", file=sys.stderr)
        output.next_steps(
            f'curl {address}/predict --json \'{{"text": "…"}}\'',
            f"{address}/" + (" in a browser" if page else "openapi.json"),
        )
        if open_ and page:
            webbrowser.open(f"{address}/")

    serve(app, host=host, port=port, drain=drain, on_start=started)
