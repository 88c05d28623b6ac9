"""``lamatext serve``: serve saved models over HTTP, with a web page."""

import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import output
from lamatext.errors import ConfigError, require

if TYPE_CHECKING:
    from starlette.applications import Starlette

NAME = "serve"
WATCH_SECONDS = 2.0  # between two checks whether a model's folder has changed
EXAMPLES = "lamatext serve runs/reviews --open"


def run(  # noqa: PLR0913 - one argument per option of the command
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Folders written by lamatext train, hf:OWNER/NAME, or NAME=FOLDER to name them; "
            "the first is the default model.",
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
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes; one that dies is started again.")
    ] = 1,
    watch: Annotated[
        bool,
        typer.Option(
            help="Reload a model when its folder changes; SIGHUP reloads all in any case."
        ),
    ] = True,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Certificate (chain) for HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="PEM", help="Private key. [default: in the file of --tls-cert]"),
    ] = None,
    access_log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Append one JSON line per request to this file; - for stdout. [default: no log]",
        ),
    ] = None,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Write the texts to the access log, too.")
    ] = False,
    page: Annotated[
        bool, typer.Option(help="Serve the web page at / and the API documentation at /docs.")
    ] = True,
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
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to compute the result of a request.")
    ] = 10.0,
    max_body: Annotated[int, typer.Option(min=1000, help="Bytes of a request body.")] = 1 << 20,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts per request.")] = 256,
    max_characters: Annotated[
        int,
        typer.Option(min=1, help="Characters of a text, or of all texts of a request to /explain."),
    ] = 20_000,
    max_queue: Annotated[
        int, typer.Option(min=1, help="Texts that may wait for a model; more get status 503.")
    ] = 4096,
) -> None:
    """Serve saved models over HTTP, with a JSON API (/predict, /explain) and a web page."""
    require("starlette", extra="serve", purpose="lamatext serve")
    require("uvicorn", extra="serve", purpose="lamatext serve")
    require("httptools", extra="serve", purpose="lamatext serve")
    from lamatext.kernels.kernel_threads import usable_cores
    from lamatext.serve.access_log import AccessLog
    from lamatext.serve.app import create_app
    from lamatext.serve.connection_limits import ConnectionLimits
    from lamatext.serve.middleware import allowed_hosts
    from lamatext.serve.prometheus import SharedMetrics
    from lamatext.serve.registry import load_models
    from lamatext.serve.schemas import Limits
    from lamatext.serve.server import run_server
    from lamatext.serve.tls import TlsFiles
    from lamatext.serve.workers import WorkerContext

    _check_options(api_key, tls_cert, tls_key, access_log, log_texts=log_texts)
    hosts = allowed_hosts(host, allow_host or ())
    connection_limits = ConnectionLimits(
        connections=max_connections,
        body=max_body,
        header_seconds=header_timeout,
        body_seconds=body_timeout,
        idle_seconds=idle_timeout,
    )
    limits = Limits(
        body=max_body,
        texts=max_texts,
        characters=max_characters,
        queue=max(1, max_queue // workers),
        seconds=timeout,
        body_seconds=body_timeout,
        threads=0 if workers == 1 else max(1, usable_cores() // workers),
    )
    tls = (
        None if tls_cert is None else TlsFiles(tls_cert, tls_key, handshake_seconds=header_timeout)
    )

    def announce(port: int) -> None:
        address = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        output.message(f"Serving {', '.join(models)} at {address}")
        _suggest(address, has_page=page, has_key=api_key is not None, open_page=open_)

    with TemporaryDirectory() as metrics_folder:

        def make_app(worker: WorkerContext | None) -> "Starlette":
            shared = None if worker is None else SharedMetrics(Path(metrics_folder), worker.number)
            return create_app(
                load_models(models),
                limits=limits,
                api_key=api_key,
                hosts=hosts,
                page=page,
                watch_seconds=WATCH_SECONDS if watch else 0,
                access_log=AccessLog(access_log, texts=log_texts) if access_log else None,
                shared_metrics=shared,
            )

        status = run_server(
            make_app,
            host=host,
            port=port,
            workers=workers,
            drain=drain,
            limits=connection_limits,
            tls=tls,
            on_start=announce,
        )
    if status:
        raise typer.Exit(status)


def _suggest(address: str, *, has_page: bool, has_key: bool, open_page: bool) -> None:
    """Print an example request and the web page address when ``lamatext serve`` starts."""
    key = ' -H "Authorization: Bearer $LAMATEXT_API_KEY"' if has_key else ""
    page = f"{address}/{'' if has_page else 'openapi.json'}"
    output.next_steps(
        f'curl {address}/predict{key} --json \'{{"text": "your text"}}\'', f"{page} in a browser"
    )
    if open_page:
        webbrowser.open(page)


def _check_options(
    api_key: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    access_log: str | None,
    *,
    log_texts: bool,
) -> None:
    if api_key is not None and not (
        api_key.strip() and api_key.isascii() and api_key.isprintable()
    ):
        raise ConfigError("--api-key: expected a key of printable ASCII characters.")
    if tls_key is not None and tls_cert is None:
        raise ConfigError("--tls-key: expected --tls-cert, the certificate of this key, too.")
    if log_texts and access_log is None:
        raise ConfigError("--log-texts: expected --access-log FILE, too.")
