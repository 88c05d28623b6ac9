"""``lamatext evaluate``: compute the scores of a saved model on labelled texts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.data.read_options import source_name
from lamatext.errors import ConfigError, DataError, percent, plural
from lamatext.progress import Progress

if TYPE_CHECKING:
    from lamatext.data.dataset import Dataset, EvaluationData
    from lamatext.data.read_options import ReadOptions
    from lamatext.explain.faithfulness import Faithfulness
    from lamatext.metrics import AnyScores, CoveragePoint

NAME = "evaluate"
EXAMPLES = "lamatext evaluate runs/reviews held-out.csv"


@options.reads(*options.LABELLED)
def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    data: options.Data,
    *,
    reading: "ReadOptions",
    target_accuracy: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Find the lowest probability threshold above which predictions reach this "
            "accuracy, for example 0.95; predictions below it count as unsure.",
        ),
    ] = None,
    faithfulness: Annotated[
        bool,
        typer.Option("--faithfulness", help="Also measure how faithful the explanations are."),
    ] = False,
    save: Annotated[
        bool,
        typer.Option(
            "--save",
            help="Store the threshold of --target-accuracy in the model. Without "
            "--target-accuracy: measure faithfulness and store it in the model card.",
        ),
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
    from lamatext.views.terminal_dataset import show_reading

    load_config(model)
    _check_target(target_accuracy)
    measured: dict[str, Faithfulness | CoveragePoint] = {}
    with output.progress(quiet=quiet) as progress:
        progress.stage(f"reading {source_name(data)}")
        test = load_evaluation_data(model, data, reading)
        show_reading(test.texts, progress)
        progress.note(f"{source_name(data)}: {test.about}")
        progress.stage("predicting", len(test.texts))
        scores, texts_per_second = score_saved_model(model, test.texts, progress)
        if target_accuracy is not None:
            _check_unseen(test, data)
            measured["threshold"] = _find_threshold(model, scores, target_accuracy, save=save)
        if faithfulness or (save and target_accuracy is None):
            measured["faithfulness"] = _measure_faithfulness(
                model, test.texts, seed, save, progress
            )
    if as_json:
        result = {
            **scores.as_dict(),
            "texts_per_second": texts_per_second,
            "is_training_data": test.is_seen,
        }
        print(json.dumps(result | {name: value.as_dict() for name, value in measured.items()}))
        return
    _show(scores, texts_per_second, measured, target_accuracy, is_seen=test.is_seen)
    if save and not quiet:
        output.message(f"\n{_saved_note(model, measured)}")
    if not quiet:
        rest = ("--out", output.unused_name("report.html"), *output.reading_options(reading))
        report = output.command("report", model, data, *rest)
        output.next_steps(
            output.command("predict", model, "--text", output.YOUR_TEXT, "--unsure", "unsure")
            if save and "threshold" in measured
            else output.command("explain", model, "--text", output.YOUR_TEXT),
            *([] if data == "-" else [report]),
        )


def _show(
    scores: "AnyScores",
    texts_per_second: float,
    measured: "Mapping[str, Faithfulness | CoveragePoint]",
    target: float | None,
    *,
    is_seen: bool,
) -> None:
    from lamatext.explain.faithfulness import Faithfulness
    from lamatext.views.terminal_scores import show_faithfulness, show_scores, show_threshold

    console = output.out()
    show_scores(console, scores, texts_per_second, is_seen=is_seen)
    for result in measured.values():
        if isinstance(result, Faithfulness):
            show_faithfulness(console, result)
        elif target is not None:
            show_threshold(console, result, target, scores.texts)


def _saved_note(model: Path, measured: "Mapping[str, Faithfulness | CoveragePoint]") -> str:
    """Return a message on what ``--save`` has stored in the model, and in which file."""
    files = {"threshold": "config.json", "faithfulness": "metrics.json"}
    stored = (f"the {name} in {model / files[name]}" for name in measured)
    return f"Saved {' and '.join(stored)}, and the model card was updated."


def _check_target(target: float | None) -> None:
    if target is not None and not 0 < target <= 1:
        raise ConfigError(
            f"--target-accuracy ({target:g}) must be above 0 and at most 1, such as 0.95 for 95 %."
        )


def _check_unseen(test: "EvaluationData", data: str) -> None:
    if test.is_seen:
        raise DataError(
            f"{data}: the model was trained on these texts, so a threshold found on them would be "
            "too low. Give labelled texts that were not used in training."
        )


def _find_threshold(
    model: Path, scores: "AnyScores", target: float, *, save: bool
) -> "CoveragePoint":
    from lamatext.metrics import Scores, find_threshold
    from lamatext.saved.model_io import save_threshold

    if not isinstance(scores, Scores):
        raise ConfigError(
            "--target-accuracy needs a model with one label per text; this one has a threshold for "
            "each label already. Train it with --min-precision to raise them."
        )
    point = find_threshold(scores.coverage, target)
    if point is None:
        best = max(scores.coverage, key=lambda point: point.accuracy)
        raise DataError(
            f"no threshold reaches an accuracy of {percent(target)} on "
            f"{plural(scores.texts, 'text')}; the most confident {percent(best.answered, 0)} reach "
            f"{percent(best.accuracy)}. Choose a lower "
            "--target-accuracy, or train on more texts."
        )
    if save:
        facts = {"target_accuracy": target, "texts": scores.texts}
        save_threshold(model, {**point.as_dict(), **facts})
    return point


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
