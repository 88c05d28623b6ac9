"""``lamatext``: the verbs, and how a user's mistake is answered."""

import errno
import os
import sys
import warnings
from typing import Annotated

import typer

from lamatext import __version__
from lamatext.cli import (
    data,
    evaluate,
    explain,
    export,
    info,
    predict,
    report,
    serve,
    train,
)
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
VERBS = (
    train, evaluate, predict, explain, report, export, serve, info, data,
)  # fmt: skip
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
    # Threads of torch that wait by spinning make a busy machine many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one ``lamatext`` command line and return its exit status."""
    return run_app(app, arguments, prog_name="lamatext")


def run_app(commands: typer.Typer, arguments: list[str], *, prog_name: str) -> int:
    """Run a typer app; report user errors as one line on stderr with exit status 2."""
    warnings.showwarning = _show_warning
    try:
        status = commands(arguments, prog_name=prog_name, standalone_mode=False)
        sys.stdout.flush()
    except LamatextError as error:
        return _refuse(str(error))
    except typer.TyperException as error:
        return _refuse(_usage(error))
    except (BrokenPipeError, SystemExit):  # the second is typer's answer to the first
        # Whoever read our output has gone: nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in _CIRCUMSTANCES:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{error.strerror}.")
    return status if isinstance(status, int) else 0


# What the machine refuses and the user can change; any other failure is our bug.
_CIRCUMSTANCES = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG,
)  # fmt: skip


def _refuse(message: str) -> int:
    print(f"lamatext: {message}", file=sys.stderr)
    return 2


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the command line, and where its help is."""
    message = error.format_message().strip()
    sentence = message if message.endswith((".", "?", "!")) else f"{message}."
    context = getattr(error, "ctx", None)
    return sentence if context is None else f"{sentence} See: {context.command_path} --help"


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line, without the place in our code that it comes from."""
    print(f"lamatext: {message}", file=sys.stderr)
