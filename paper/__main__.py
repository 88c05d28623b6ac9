"""``python -m paper``: a table or figure of the paper."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import output
from lamatext.cli.main import run_app

EXAMPLE = "Example: LAMATEXT_DATA=data python -m paper accuracy --quick"

Name = Annotated[
    str,
    typer.Argument(
        help="datasets, complexity, accuracy, parameters, runtime, params-vs-accuracy, "
        "word-weights, keywords, heads, ablation, probe, or all."
    ),
]
Folder = Annotated[Path, typer.Option("--results", help="Where the records are kept.")]
Quick = Annotated[
    bool,
    typer.Option(
        help="A small version in minutes: 600 texts, 2 epochs, its own folder of records."
    ),
]
Show = Annotated[bool, typer.Option("--show", help="Compute nothing: show what was recorded.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Workers = Annotated[int, typer.Option(help="Trials side by side.")]
Minutes = Annotated[float, typer.Option(help="Stop by then; a later call goes on.")]


def run(  # noqa: PLR0913 - each argument is one option on the command line
    name: Name,
    results: Folder = Path("paper/records"),
    quick: Quick = False,
    show: Show = False,
    device: Device = "auto",
    workers: Workers = 1,
    minutes: Minutes = 24 * 60,
) -> None:
    """Compute a table or figure of the paper, with the published values beside ours.

    What is recorded already is not computed again.
    """
    from paper.names import NAMES, QUICK_EPOCHS, QUICK_TEXTS, Work, lookup
    from paper.names import show as shown
    from paper.page import write_page
    from paper.runner import Place

    names = list(NAMES) if name == "all" else [name]
    entries = [lookup(each) for each in names]
    folder = results / "quick" if quick else results
    if quick:
        _say(
            f"Quick: {QUICK_TEXTS} texts of each part, {QUICK_EPOCHS} epochs, one seed. "
            "These figures show that the code runs, not what the systems can do."
        )
    prepared = folder / "prepared" if quick else _prepared_folder()
    work = Work(
        Place(folder, prepared, device, QUICK_TEXTS if quick else None),
        workers=workers,
        minutes=minutes,
        quick=quick,
        bert=not quick,
        say=_say,
    )
    for each, entry in zip(names, entries, strict=True):
        if not show:
            entry.compute(work)
        text, paths = shown(work.results, each, folder / "figures")
        print(f"{text}\n" if text else "", end="")
        for path in paths:
            _say(f"wrote {path}")
    if name == "all":
        _say(f"wrote {write_page(work.results, quick=quick)}")
    output.next_steps(f"python -m paper all{' --quick' if quick else ''} --show")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _prepared_folder() -> Path:
    """Ids are made once: beside the other things that need not be made twice."""
    from lamatext.data.cache import cache_folder

    return Path(os.environ.get("LAMATEXT_PREPARED") or cache_folder() / "prepared")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(run)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_app(app, given, prog_name="python -m paper")


if __name__ == "__main__":
    sys.exit(main())
