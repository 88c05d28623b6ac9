"""``python -m benchmarks``: speed and memory, ours and the baselines' in one run, as ratios."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.cli.main import run_app
from lamatext.errors import ConfigError

if TYPE_CHECKING:
    from benchmarks.figures import Figure

EXAMPLE = "Example: python -m benchmarks train --check"
NAMES = (
    "train",
    "sizes",
    "prepare",
    "latency",
    "throughput",
    "memory",
    "attention",
    "gpu",
    "serve",
)


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(NAMES)}, or all.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 where a ratio misses its bar.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder of NAME.json.")] = Path(
        "benchmarks/records"
    ),
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Time ours and the baselines in turns, print the ratios, and keep them as JSON."""
    from benchmarks.figures import missed, records, write

    if name not in (*NAMES, "all"):
        raise ConfigError(f"unknown benchmark {name!r}. Known: {', '.join(NAMES)}, all.")
    below: list[str] = []
    told: list[dict[str, object]] = []
    for each in NAMES if name == "all" else (name,):
        found = _measure(each, quiet=quiet)
        if found is None:
            continue
        write(each, found, out)
        told += records(each, found)
        below += [f"{each}: {figure.what}" for figure in missed(each, found)]
        if not as_json:
            _show(each, found)
    if as_json:
        print(json.dumps(told))
    if below and not quiet:
        print(f"Under its bar: {'; '.join(below)}.", file=sys.stderr)
    if below and check:
        raise typer.Exit(1)


def _measure(name: str, *, quiet: bool) -> "list[Figure] | None":
    """The figures, or None where the benchmark says why it cannot run."""
    from benchmarks.figures import SkippedError

    if not quiet:
        print(f"{name}: measuring …", file=sys.stderr)
    try:
        module = import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"benchmarks.{name}":
            raise
        print(f"{name}: skipped, this lamatext has no such benchmark yet.", file=sys.stderr)
        return None
    try:
        found: list[Figure] = module.figures()
    except SkippedError as reason:
        print(f"{name}: skipped, {reason}", file=sys.stderr)
        return None
    return found


def _show(name: str, figures: "list[Figure]") -> None:
    from benchmarks.figures import BARS

    bars = BARS.get(name, {})
    rows = [
        (
            figure.what,
            f"{figure.ratio:.2f}",
            f"{figure.low:.2f}–{figure.high:.2f}",
            str(bars[figure.what]) if figure.what in bars else "",
            f"{figure.ours:.3g}",
            f"{figure.theirs:.3g}",
            figure.unit,
        )
        for figure in figures
    ]
    console = output.out()
    console.print(output.table((name, "ratio", "quartiles", "bar", "ours", "theirs", ""), rows))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(run)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_app(app, given, prog_name="python -m benchmarks")


if __name__ == "__main__":
    sys.exit(main())
