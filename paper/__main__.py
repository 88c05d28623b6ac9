"""``python -m paper NAME``: compute a table or figure of the paper."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import output
from lamatext.cli.main import run_app
from paper.records import PAPER_RECORDS

EXAMPLE = "Example: LAMATEXT_DATA=data python -m paper accuracy --quick"


class ProtocolName(StrEnum):
    """Protocols of the accuracy table."""

    SEEDS = "seeds"
    FOLDS = "folds"


Name = Annotated[
    str,
    typer.Argument(
        help="datasets, complexity, choices, accuracy, parameters, runtime, hours, "
        "params-vs-accuracy, word-weights, keywords, heads, ablation, loading, layers, probe, "
        "open-directions, phrase-widths, word-order, default-encoders, text-lengths, or all."
    ),
]
RecordsFolder = Annotated[Path, typer.Option("--records", help="Folder of the records.")]
Quick = Annotated[
    bool,
    typer.Option(help="Run a small version in minutes: 600 texts, 2 epochs, separate records."),
]
Show = Annotated[bool, typer.Option("--show", help="Show the recorded results only.")]
Force = Annotated[bool, typer.Option("--force", help="Compute existing records again.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Workers = Annotated[int, typer.Option(help="Number of training runs in parallel.")]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder with one folder per data set; $LAMATEXT_DATA if not given."
    ),
]
Protocol = Annotated[
    ProtocolName,
    typer.Option(
        help="Of accuracy: several seeds, or the paper's own best of three folds.",
    ),
]
Minutes = Annotated[float, typer.Option(help="Stop after this time; a later call continues.")]


def run(  # noqa: PLR0913 - each argument is one option on the command line
    name: Name,
    records: RecordsFolder = PAPER_RECORDS,
    quick: Quick = False,
    show: Show = False,
    force: Force = False,
    device: Device = "auto",
    workers: Workers = 1,
    minutes: Minutes = 24 * 60,
    data: DataFolder = None,
    protocol: Protocol = ProtocolName.SEEDS,
) -> None:
    """Compute a table or figure of the paper and show it next to the published values.

    Existing records are not computed again. ``all`` also updates the tables of paper/README.md.
    """
    from lamatext.data.named_datasets import DATA_VARIABLE
    from paper import experiments
    from paper.records import Records

    if data is not None:
        os.environ[DATA_VARIABLE] = str(data)
    names = list(experiments.EXPERIMENTS) if name == "all" else [name]
    selected = [experiments.find_experiment(each) for each in names]
    folder = records / "quick" if quick else records
    if quick:
        _report(
            f"Quick: {experiments.QUICK_TEXTS} texts of each part, {experiments.QUICK_EPOCHS} "
            "epochs, one seed. These numbers show that the code runs, not how good a system is."
        )
    options = experiments.Options(
        Records(folder, force=force),
        folder / "tokenized" if quick else _tokenized_folder(),
        device=device,
        workers=workers,
        minutes=minutes,
        quick=quick,
        report=_report,
        protocol=protocol.value,
    )
    figures = folder / "figures" if folder != PAPER_RECORDS else folder.parent / "figures"
    for each, experiment in zip(names, selected, strict=True):
        if not show:
            experiment.compute(options)
        text, paths = experiments.show(options.records, each, figures)
        print(f"{text}\n")
        for path in paths:
            _report(f"wrote {path}")
    if name == "all" and folder == PAPER_RECORDS:
        experiments.update_findings()
        _report(f"updated the tables of {experiments.FINDINGS}")
    output.next_steps(f"python -m paper all{' --quick' if quick else ''} --show")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tokenized_folder() -> Path:
    """Return the folder of the tokenized data sets: ``$LAMATEXT_PREPARED``, or one of the cache.

    The cache has one for each state of the data folder, so that changed files are read again.
    """
    from lamatext.data.cache import cache_folder
    from paper.official_datasets import files_fingerprint

    if folder := os.environ.get("LAMATEXT_PREPARED"):
        return Path(folder)
    return cache_folder() / "prepared" / files_fingerprint()


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(run)


def main(arguments: list[str] | None = None) -> int:
    """Run ``python -m paper`` and return its exit status."""
    return run_app(
        app, sys.argv[1:] if arguments is None else arguments, prog_name="python -m paper"
    )


if __name__ == "__main__":
    sys.exit(main())
