"""``python -m benchmarks NAME``: run a benchmark, print its ratios and write its records."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.cli.main import run_app
from lamatext.errors import ConfigError
from lamatext.views.terminal_table import TerminalTable

if TYPE_CHECKING:
    from benchmarks.comparison import Comparison

EXAMPLE = "Example: python -m benchmarks latency --check"
# Each benchmark by name: its module, and the function that measures.
BENCHMARKS = {
    "training_step": ("training_step", "measure"),
    "training_processes": ("training_processes", "measure"),
    "gru_encoder": ("gru_encoder", "measure"),
    "tokenization": ("tokenization", "measure"),
    "latency": ("latency", "measure"),
    "throughput": ("throughput", "measure"),
    "memory": ("memory", "measure"),
    "attention_scaling": ("attention_scaling", "measure"),
    "attention_scaling_gpu": ("attention_scaling", "measure_on_gpu"),
    "gpu_training": ("gpu_training", "measure"),
    "serving": ("serving", "measure"),
    "serving_workers": ("serving", "measure_workers"),
}
# Each of these is a command with its own options: accuracy, and cost over the size of the data.
COMMANDS = {
    "leaderboard": "leaderboard",
    "costs": "costs",
    "clean": "flipped_labels",
    "coverage": "coverage",
    "multi_label": "multi_label",
    "outliers": "outliers",
    "distillation": "distillation",
    "score-intervals": "score_intervals",
    "ablation": "recipe_ablation",
    "extra-datasets": "extra_datasets",
    "small-data": "small_data",
    "tables": "leaderboard_tables",
    "growth": "growth",
    "training-cost": "training_cost",
    "recipe-history": "recipe_history",
    "batch-sizes": "batch_sizes",
    "tune": "tuning",
    "streaming": "streaming",
    "continuation": "continuation",
    "ray": "ray_prediction",
    "process-accuracy": "process_accuracy",
    "estimates": "estimates",
}
RECORDS = Path(__file__).parent / "records"


def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"One of {', '.join(BENCHMARKS)}, or all. Commands with options of their own "
            f"(NAME --help): {', '.join(COMMANDS)}.",
        ),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Exit with status 1 if a ratio misses its target.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for NAME.json.")] = RECORDS,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Run lamatext and its alternatives in alternation, print ratios, write records."""
    from benchmarks.comparison import make_records, missed_targets, write_records

    if name not in (*BENCHMARKS, "all"):
        raise ConfigError(f"unknown benchmark {name!r}. Known: {', '.join(BENCHMARKS)}, all.")
    missed: list[str] = []
    records: list[dict[str, object]] = []
    for benchmark in BENCHMARKS if name == "all" else (name,):
        comparisons = _measure(benchmark, quiet=quiet)
        if comparisons is None:
            continue
        _draw(benchmark, write_records(benchmark, comparisons, out))
        records += make_records(benchmark, comparisons)
        missed += [f"{benchmark}: {c.metric}" for c in missed_targets(benchmark, comparisons)]
        if not as_json:
            _print_table(benchmark, comparisons)
    if as_json:
        print(json.dumps(records))
    if missed and not quiet:
        print(f"Target missed: {'; '.join(missed)}.", file=sys.stderr)
    if missed and check:
        raise typer.Exit(1)


def _measure(benchmark: str, *, quiet: bool) -> "list[Comparison] | None":
    """Run one benchmark; print why and return None if it cannot run on this machine."""
    from benchmarks.comparison import SkippedError

    if not quiet:
        print(f"{benchmark}: measuring …", file=sys.stderr)
    module, function = BENCHMARKS[benchmark]
    try:
        comparisons: list[Comparison] = getattr(import_module(f"benchmarks.{module}"), function)()
    except SkippedError as reason:
        print(f"{benchmark}: skipped, {reason}", file=sys.stderr)
        return None
    return comparisons


def _draw(benchmark: str, records: Path) -> None:
    """Draw the figure of a benchmark that has one, next to its folder of records."""
    if BENCHMARKS[benchmark][0] == "attention_scaling":
        from benchmarks.attention_scaling import draw

        draw(records, records.parent.parent / "figures")


def _print_table(benchmark: str, comparisons: "list[Comparison]") -> None:
    from benchmarks.comparison import TARGETS

    targets = TARGETS.get(benchmark, {})
    rows = [
        (
            comparison.metric,
            f"{comparison.ratio:.2f}",
            f"{comparison.low:.2f}–{comparison.high:.2f}",
            str(targets[comparison.metric]) if comparison.metric in targets else "",
            f"{comparison.ours:.3g}",
            f"{comparison.baseline:.3g}",
            comparison.unit,
        )
        for comparison in comparisons
    ]
    columns = (benchmark, "ratio", "quartiles", "target", "ours", "baseline", "unit")
    output.out().print(TerminalTable(columns, rows))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(run)


def main(arguments: list[str] | None = None) -> int:
    """Run ``python -m benchmarks`` and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        return _run_command(*arguments)
    return run_app(app, arguments or ["--help"], prog_name="python -m benchmarks")


def _run_command(name: str, *arguments: str) -> int:
    module = import_module(f"benchmarks.{COMMANDS[name]}")
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command(help=module.run.__doc__)(module.run)
    return run_app(command, list(arguments), prog_name=f"python -m benchmarks {name}")


if __name__ == "__main__":
    sys.exit(main())
