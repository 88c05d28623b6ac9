"""``lamatext train``: read, split, train, score beside the rivals, save."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import display, options

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
    seed: Annotated[int, typer.Option(help="Fixes the split and the training.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    rivals: Annotated[
        str, typer.Option(help="Trained beside it: tfidf, tfidf-svc, fasttext, avg, or none.")
    ] = "tfidf",
    html: Annotated[
        Path | None, typer.Option(help="Write a page of test texts with their words shaded.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run.")] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Train a classifier on labelled texts, score it beside its rivals and save it."""
    from lamatext.cli.train_view import show_data, show_outcome, write_examples
    from lamatext.config import parse_assignments, resolve_recipe
    from lamatext.data.sources import find_test, load
    from lamatext.jobs import run_job, split_parts

    values = parse_assignments(set_ or [])
    values |= {"text.vectors": vectors} if vectors else {}
    settings = resolve_recipe(model=model, recipe=recipe, values={"seed": seed, **values})
    read = partial(load, text_column=text_column, label_column=label_column)
    with display.progress(quiet=quiet) as progress:
        progress.stage(f"reading {data}")
        train = read(data, format=format_)
        tested = read(test) if test else None
        if tested is None and find_test(data):
            tested = read(data, split="test")
        parts = split_parts(train, read(valid) if valid else None, tested, settings)
        show_data(parts, progress)
        try:
            outcome = run_job(
                parts,
                settings,
                out,
                progress,
                rivals=[name for name in rivals.split(",") if name and name != "none"],
                device=device,
                resume=resume,
            )
        except KeyboardInterrupt:
            print(f"\nlamatext: interrupted; the epochs done are in {out}. Go on with:\n"
                  f"  {_again()}", file=sys.stderr)  # fmt: skip
            raise typer.Exit(130) from None
        if html is not None:
            progress.stage("writing the page")
            write_examples(outcome, parts.test, html)
    if as_json:
        print(json.dumps({"folder": str(out), **outcome.scores.as_dict()}))
        return
    show_outcome(outcome)
    if not quiet:
        display.next_steps(
            f'lamatext predict {out} --text "…"',
            f'lamatext explain {out} --text "…"',
            f"lamatext evaluate {out} {test or data}",
            *([f"open {html} in a browser"] if html else []),
        )


def _again() -> str:
    import shlex

    given = sys.argv[1:]
    return shlex.join(["lamatext", *given, *([] if "--resume" in given else ["--resume"])])
