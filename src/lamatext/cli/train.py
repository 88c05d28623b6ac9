"""``lamatext train``: read, split, train, score beside the baselines, save."""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.progress import Progress

if TYPE_CHECKING:
    from lamatext.pipeline import Splits

NAME = "train"
EXAMPLE = "Example: lamatext train reviews.csv --out runs/reviews"


def run(  # noqa: PLR0913 - one argument for each option of the verb
    data: options.Data,
    out: Annotated[Path, typer.Option(help="Where the model is saved.")],
    model: Annotated[
        str | None, typer.Option(help="A system of the paper, by its recipe: lama-ctx, san, …")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe's name or a TOML file. [default: default]")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. model.heads=8."),
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="DATA", help="Texts to score on.")] = None,
    valid: Annotated[str | None, typer.Option(metavar="DATA", help="Texts to stop by.")] = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    format_: Annotated[str | None, typer.Option("--format", help="Of DATA, e.g. of stdin.")] = None,
    vectors: Annotated[
        str | None, typer.Option(help="word2vec, random, or a GloVe/word2vec text file.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Fixes the split and the training. [default: 0]")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    baselines: Annotated[
        str, typer.Option(help="Trained beside it: tfidf, tfidf-svc, fasttext, avg, or none.")
    ] = "tfidf",
    html: Annotated[
        Path | None, typer.Option(help="Write a page of test texts with their words shaded.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the whole report, as `lamatext report` does.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run.")] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Train a classifier on labelled texts, score it beside its baselines and save it."""
    from lamatext.baselines import check_baselines
    from lamatext.cli.train_view import show_data, show_outcome, write_examples
    from lamatext.data.sources import load_dataset
    from lamatext.pipeline import is_finished, prepare_run_folder, read_splits, train_and_score
    from lamatext.recipes import parse_assignments, resolve_recipe

    values: dict[str, object] = {} if seed is None else {"seed": seed}
    values |= parse_assignments(set_ or []) | ({"text.word_vectors": vectors} if vectors else {})
    settings = resolve_recipe(model=model, recipe=recipe, values=values)
    beside = [name for name in baselines.split(",") if name and name != "none"]
    check_baselines(beside)
    with (
        prepare_run_folder(out, resume=resume),
        # Outside the bar, which would wrap the command or wipe it.
        _interruptible(out, resume=resume),
        output.progress(quiet=quiet) as progress,
    ):
        if resume and is_finished(out, settings, data):
            progress.note(f"{out}: the run is finished, there is nothing left to do.")
            return
        _check_device(device)
        progress.stage(f"reading {data}")
        read = partial(load_dataset, text_column=text_column, label_column=label_column)
        parts = read_splits(data, settings, test=test, validation=valid, format=format_, read=read)
        show_data(parts, progress)
        outcome = train_and_score(
            parts, settings, out, progress, baselines=beside, device=device, resume=resume
        )
        if html is not None:
            progress.stage("writing the page")
            write_examples(outcome, parts.test, html)
        if report is not None:
            _write_report(out, parts, report, progress)
    if as_json:
        print(json.dumps({"folder": str(out), **outcome.scores.as_dict()}))
        return
    show_outcome(outcome)
    if not quiet:
        output.next_steps(
            f'lamatext predict {out} --text "…"',
            f'lamatext explain {out} --text "…"',
            f"lamatext evaluate {out} {test or data}",
            *(f"open {page} in a browser" for page in (html, report) if page),
        )


def _check_device(name: str) -> None:
    """Before the data is read: the training stack is there, and so is the device."""
    from lamatext.errors import require

    require("torch", extra="train", purpose="training")
    from lamatext.training.trainer import pick_device

    pick_device(name)


def _write_report(folder: Path, parts: "Splits", path: Path, progress: Progress) -> None:
    from lamatext.evaluation import EvaluationData
    from lamatext.views.report.report_page import write_report

    about = f"{len(parts.test):,} texts that it did not learn from"
    write_report(folder, EvaluationData(parts.test, parts.train, about), path, progress=progress)


@contextmanager
def _interruptible(out: Path, *, resume: bool) -> Iterator[None]:
    """Ctrl-C within the block ends the run and says what there is of it and how to go on."""
    from lamatext.saved.format import CHECKPOINT, CONFIG

    epochs, model = out / CHECKPOINT, out / CONFIG
    of_another_run = {None} if resume else {None, _modification_time(epochs)}
    before = _modification_time(model)
    try:
        yield
    except KeyboardInterrupt:
        if _modification_time(epochs) not in of_another_run:
            told = f"the epochs done are in {out}. Go on with:\n  {_again('--resume')}"
        elif _modification_time(model) != before:
            told = f"the model is finished and in {out}; a page asked for beside it is not."
        else:
            told = f"no epoch was done, so nothing is kept. Begin again with:\n  {_again()}"
        print(f"\nlamatext: interrupted; {told}", file=sys.stderr)
        raise typer.Exit(130) from None


def _again(*more: str) -> str:
    """The command that this is, with ``--resume`` or without."""
    given = (part for part in sys.argv[1:] if part != "--resume")
    return shlex.join(["lamatext", *given, *more])


def _modification_time(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.is_file() else None
