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


def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    data: options.Data,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    label_separator: options.LabelSeparator = None,
    format_: options.Format = None,
    max_record: options.MaxRecord = output.DEFAULT_MAX_RECORD,
    faithfulness: Annotated[
        bool,
        typer.Option("--faithfulness", help="Also measure how faithful the explanations are."),
    ] = False,
    save: Annotated[
        bool,
        typer.Option("--save", help="Measure faithfulness and store it in the model card."),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Selects the texts that faithfulness is measured on.")
    ] = 0,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Evaluate a saved model on labelled texts and print its scores and confusion matrix."""
    from lamatext.evaluation import load_evaluation_data
    from lamatext.pipeline import score_saved_model
    from lamatext.saved.format import load_config
    from lamatext.views.terminal_scores import show_faithfulness, show_scores

    load_config(model)
    faithfulness_scores = None
    with output.progress(quiet=quiet) as progress:
        progress.stage(f"reading {data}")
        test = load_evaluation_data(
            model,
            data,
            text_column=text_column,
            label_column=label_column,
            label_separator=label_separator,
            format=format_,
            max_record=max_record * 1_000_000,
        )
        progress.note(f"{data}: {test.about}")
        progress.stage("predicting", len(test.texts))
        scores, texts_per_second = score_saved_model(model, test.texts, progress)
        if faithfulness or save:
            faithfulness_scores = _measure_faithfulness(model, test.texts, seed, save, progress)
    if as_json:
        result = {**scores.as_dict(), "texts_per_second": texts_per_second}
        if faithfulness_scores is not None:
            result["faithfulness"] = faithfulness_scores.as_dict()
        print(json.dumps(result))
        return
    console = output.out()
    show_scores(console, scores, texts_per_second)
    if faithfulness_scores is not None:
        show_faithfulness(console, faithfulness_scores)
    if not quiet:
        reading = output.reading_options(
            text_column, label_column, label_separator, format_, max_record
        )
        report = output.command("report", model, data, "--out", "report.html", *reading)
        explain = output.command("explain", model, "--text", "…")
        output.next_steps(explain, *([] if data == "-" else [report]))


def _measure_faithfulness(
    model: Path, test: "Dataset", seed: int, save: bool, progress: Progress
) -> "Faithfulness":
    from lamatext.explain.faithfulness import measure_faithfulness
    from lamatext.runtime.predictor import Predictor
    from lamatext.saved.model_io import add_metrics, load_model, load_network

    scores = measure_faithfulness(
        Predictor.load(model),
        test.texts.to_pylist(),
        load_network=lambda: load_network(load_model(model)),
        seed=seed,
        progress=progress,
    )
    if save:
        add_metrics(model, {"faithfulness": scores.as_dict()})
    return scores
