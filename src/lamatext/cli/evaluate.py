"""``lamatext evaluate``: score a saved model on labelled texts."""

import json
from typing import Annotated

import typer

from lamatext.cli import display, options

NAME = "evaluate"
EXAMPLE = "Example: lamatext evaluate runs/reviews held-out.csv"


def run(  # noqa: PLR0913 - one argument for each option of the verb
    model: options.Model,
    data: options.Data,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    format_: Annotated[str | None, typer.Option("--format", help="Of DATA, e.g. of stdin.")] = None,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Accuracy, macro-F1, a table of the classes, confusion and calibration."""
    from lamatext.cli.evaluate_view import show_scores
    from lamatext.data.sources import find_test, load
    from lamatext.folder import load_config
    from lamatext.jobs import score_saved

    load_config(model)
    part = "test" if find_test(data) else "train"
    with display.progress(quiet=quiet) as progress:
        progress.stage(f"reading {data}")
        corpus = load(
            data, split=part, text_column=text_column, label_column=label_column, format=format_
        )
        if part == "test":
            progress.note(f"{data}: its test part, {len(corpus):,} texts")
        progress.stage("predicting", len(corpus))
        scores, speed = score_saved(model, corpus, progress)
    if as_json:
        print(json.dumps({**scores.as_dict(), "texts_per_second": speed}))
        return
    show_scores(scores, speed)
    if not quiet:
        display.next_steps(
            f'lamatext explain {model} --text "…"', f"lamatext predict {model} new-texts.csv"
        )
