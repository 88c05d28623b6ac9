"""``lamatext evaluate``: score a saved model on labelled texts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.progress import Progress

if TYPE_CHECKING:
    from lamatext.data.dataset import Dataset
    from lamatext.explain.faithfulness import Faithfulness

NAME = "evaluate"
EXAMPLE = "Example: lamatext evaluate runs/reviews held-out.csv"


def run(  # noqa: PLR0913 - one argument for each option of the verb
    model: options.Model,
    data: options.Data,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    format_: Annotated[str | None, typer.Option("--format", help="Of DATA, e.g. of stdin.")] = None,
    faithfulness: Annotated[
        bool, typer.Option("--faithfulness", help="Check how far its reasons can be trusted.")
    ] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Keep what --faithfulness finds in the model's card.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Draws the texts that reasons are checked on.")] = 0,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Accuracy, macro-F1, a table of the classes, confusion and calibration; checked reasons."""
    from lamatext.cli.evaluate_view import show_faithfulness, show_scores
    from lamatext.evaluation import load_evaluation_data
    from lamatext.pipeline import score_saved_model
    from lamatext.saved.format import load_config

    load_config(model)
    reasons = None
    with output.progress(quiet=quiet) as progress:
        progress.stage(f"reading {data}")
        found = load_evaluation_data(
            model, data, text_column=text_column, label_column=label_column, format=format_
        )
        progress.note(f"{data}: {found.about}")
        progress.stage("predicting", len(found.texts))
        scores, speed = score_saved_model(model, found.texts, progress)
        if faithfulness or save:
            reasons = _check(model, found.texts, seed, save, progress)
    if as_json:
        told = {} if reasons is None else {"faithfulness": reasons.as_dict()}
        print(json.dumps({**scores.as_dict(), "texts_per_second": speed, **told}))
        return
    show_scores(scores, speed)
    if reasons is not None:
        show_faithfulness(reasons)
    if not quiet:
        output.next_steps(
            f'lamatext explain {model} --text "…"',
            f"lamatext report {model} {data} --out report.html",
        )


def _check(
    model: Path, corpus: "Dataset", seed: int, save: bool, progress: Progress
) -> "Faithfulness":
    from lamatext.saved.model_io import add_metrics
    from lamatext.views.report.reason_check import checked_reasons

    found = checked_reasons(model, corpus.texts.to_pylist(), seed=seed, progress=progress)
    if save:
        add_metrics(model, {"faithfulness": found.as_dict()})
    return found
