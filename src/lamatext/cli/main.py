"""The ``lamatext`` program: its commands, and how user errors are reported."""

import errno
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from lamatext import __version__
from lamatext.cli import (
    clean,
    compare,
    data,
    drift,
    evaluate,
    explain,
    export,
    info,
    output,
    predict,
    report,
    serve,
    train,
    tune,
)
from lamatext.cli.man_page import ManPageCommand, ManPageGroup
from lamatext.errors import ColumnChoiceError, LamatextError
from lamatext.views.formatting import one_line

app = typer.Typer(
    name="lamatext",
    cls=ManPageGroup,
    help="Small, fast, explainable text classification.",
    epilog='lamatext train YOUR.csv --out runs/first\nlamatext explain runs/first --text "a text"',
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    train, tune, evaluate, predict, explain, report, clean, compare, drift, export, serve, info,
    data,
)  # fmt: skip
for module in COMMANDS:
    app.command(module.NAME, cls=ManPageCommand, epilog=module.EXAMPLES)(module.run)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lamatext {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = None,
) -> None:
    """Define the global options of the ``lamatext`` program, such as ``--version``."""


def main() -> None:
    """Run the ``lamatext`` program with ``sys.argv`` and exit with its status."""
    _open_closed_streams()
    # On a busy machine, threads that wait actively make torch many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with _dropped_interrupts_repeated():
        status = run(sys.argv[1:])
    sys.exit(status)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller of the program has closed.

    Otherwise, the program would have no object to print to, and the next file that it opens would
    get the file descriptor of a standard stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


@contextmanager
def _dropped_interrupts_repeated() -> Iterator[None]:
    """Send SIGINT again if Python swallows a Ctrl-C while the ``lamatext`` program is running.

    Python ignores any exception in the callback of a weak reference or in a finalizer, and the
    libraries that ``lamatext tune`` uses run many of them.
    """
    repeats = list[threading.Timer]()

    def repeat(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(dropped)
            return
        repeats.append(threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)))
        repeats[-1].start()

    sys.unraisablehook = repeat
    try:
        yield
    finally:  # the command has ended
        sys.unraisablehook = sys.__unraisablehook__
        for timer in repeats:
            timer.cancel()


def run(arguments: list[str]) -> int:
    """Run the ``lamatext`` program with the given arguments and return its exit status."""
    return run_app(app, arguments or ["--help"], prog_name="lamatext")


def run_app(commands: typer.Typer, arguments: list[str], *, prog_name: str) -> int:
    """Run a command-line program built with Typer and return its exit status.

    A user error is printed as one line on stderr, and the exit status is then 2.
    """
    warnings.showwarning = _print_warning
    try:
        status = commands(arguments, prog_name=prog_name, standalone_mode=False)
        sys.stdout.flush()
    except ColumnChoiceError as error:
        status = _report_error(str(error))
        for choice in error.choices:
            output.message(f"  {one_line(shlex.join([prog_name, *arguments, *choice]))}")
        return status
    except (LamatextError, MemoryError) as error:
        return _report_error(str(error) or NO_MEMORY)
    except typer.TyperException as error:
        return _report_error(_usage_error(error))
    except (BrokenPipeError, SystemExit):  # typer turns the former into the latter
        # The reader of our output has closed the pipe: not an error, and no output is possible.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in _USER_ERRORS:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _report_error(f"{where}{error.strerror}.")
    return status if isinstance(status, int) else 0


NO_MEMORY = "there is not enough memory for this. Use less data, or a machine that has more."

# Errors of the machine that the user can resolve; any other OSError is a bug of ours.
_USER_ERRORS = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG,
)  # fmt: skip


def _report_error(message: str) -> int:
    output.message(f"lamatext: {one_line(message)}")
    return 2


def _usage_error(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    sentence = message if message.endswith((".", "?", "!")) else f"{message}."
    context = getattr(error, "ctx", None)
    return sentence if context is None else f"{sentence} See: {context.command_path} --help"


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    output.message(f"lamatext: {one_line(str(message))}")
