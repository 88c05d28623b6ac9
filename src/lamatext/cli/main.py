"""``lamatext``: the verbs, and how a user's mistake is answered."""

import os
import sys
from typing import Annotated

import typer

from lamatext import __version__
from lamatext.cli import data, evaluate, explain, info, predict, train
from lamatext.errors import LamatextError

app = typer.Typer(
    name="lamatext",
    help="Small, fast, explainable text classification.",
    epilog="Start with: lamatext train YOUR.csv --out runs/first",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (train, evaluate, predict, explain, info, data)
for verb in VERBS:
    app.command(verb.NAME, epilog=verb.EXAMPLE)(verb.run)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lamatext {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Small, fast, explainable text classification."""


def main() -> None:
    """Run a verb; a mistake of the user's is one or two sentences and exit status 2."""
    try:
        app()
    except LamatextError as error:
        print(f"lamatext: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("lamatext: interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone: nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
