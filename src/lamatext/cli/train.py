"""``lamatext train``: read data, split it, train, compare with baselines, save."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from lamatext.cli import options, output
from lamatext.data.read_options import source_name
from lamatext.errors import DataError, plural
from lamatext.progress import Progress

if TYPE_CHECKING:
    from lamatext.data.dataset import Dataset
    from lamatext.data.read_options import ReadOptions
    from lamatext.pipeline import Splits, StartModel, TeacherOptions, TrainingResult
    from lamatext.settings import Recipe

NAME = "train"
SHOWN_EXAMPLES = 2
teaching_option = options.options_of("learning from a larger model")
continuing_option = options.options_of("continuing a model")
EXAMPLES = """\
lamatext train reviews.csv --out runs/reviews
lamatext train reviews.csv --test held-out.csv --baselines tfidf,avg --out runs/reviews
lamatext train new.csv --from runs/reviews --out runs/reviews-2"""


@options.reads(*options.LABELLED, *options.SPLIT)
def run(  # noqa: PLR0913 - one argument per option of the command
    data: options.Data,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the trained model.")],
    test: options.TestData = None,
    validation: options.ValidationData = None,
    without: Annotated[
        Path | None,
        options.reading_option(
            metavar="FILE",
            help="Leave out the rows of DATA that this file of `lamatext clean` lists.",
        ),
    ] = None,
    reading: "ReadOptions",
    word_vectors: Annotated[
        str | None,
        options.setting_option(
            help="svd or word2vec (trained on your texts), random, minilm, or a GloVe or word2vec "
            "text file. [default: from the recipe]"
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="With several labels per text: what the thresholds of the labels maximize, "
            "micro-f1 or macro-f1. [default: from the recipe, macro-f1]"
        ),
    ] = None,
    min_precision: Annotated[
        float | None,
        typer.Option(
            help="With several labels per text: the precision that the thresholds of the labels "
            "should reach, for example 0.9, instead of the largest F1."
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        teaching_option(
            metavar="NAME",
            help="Learn from a larger model: minilm, a Hugging Face encoder or its folder, a "
            "folder written by `lamatext train`, or a file with one column of probabilities per "
            "class.",
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        teaching_option(
            metavar="DATA",
            help="Texts without labels for the teacher to label; can be repeated. Rows of DATA "
            "without a label are used too.",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        teaching_option(
            metavar="NAME",
            help="The column that matches a teacher's file with DATA. [default: by text or order]",
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        continuing_option(
            "--from",
            metavar="MODEL",
            help="Continue the training of a saved model on DATA, and show its scores before and "
            "after on old and new data.",
        ),
    ] = None,
    old_data: Annotated[
        str | None,
        continuing_option(
            metavar="DATA",
            help="Labelled texts like those that MODEL was trained on, to score it on. [default: "
            "the test part of its training data, if that is still there]",
        ),
    ] = None,
    baselines: Annotated[
        str,
        typer.Option(
            help="Models to train and score on the same data, separated by commas: tfidf, "
            "tfidf-svc, tfidf-chars, tfidf-chars-lr, fasttext, fasttext-bigrams, avg; or none."
        ),
    ] = "tfidf",
    model: Annotated[
        str | None,
        options.setting_option(
            help="The network to train: lama, san, bigru, cnn, … "
            "[default: from the recipe, lama-ctx]"
        ),
    ] = None,
    recipe: options.RecipeName = None,
    set_: options.SettingValues = None,
    seed: options.Seed = None,
    device: options.Device = "auto",
    devices: Annotated[
        int | None,
        options.setting_option(
            min=1,
            help="Train on this many GPUs of the machine or, with --device cpu, processes. "
            "[default: 1, or the processes of torchrun or accelerate launch]",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Train on data larger than memory: Parquet or JSONL shards become token ids on "
            "disk in one pass. Baselines are not trained.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run in the folder --out.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the model or the unfinished run in the folder --out, and existing pages.",
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write an HTML page of test texts with their words shaded."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write the HTML report of `lamatext report`.")
    ] = None,
    no_examples: Annotated[
        bool,
        typer.Option("--no-examples", help="Do not keep any texts in the model as examples."),
    ] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Train a classifier on labelled texts, compare it with baselines and save it.

    The data is split into training, validation and test texts. The model is trained on the first,
    calibrated on the second, and scored, next to the baselines, on the third. The
    folder --out then holds everything that `predict`, `explain`, `report`, `serve` and `export`
    need.
    """
    _work_for_another_process(device)
    from lamatext.pipeline import (
        MAX_EXAMPLES,
        DataSources,
        is_finished,
        prepare_run_folder,
        read_splits,
        stream_splits,
        train_and_score,
    )
    from lamatext.recipes import parse_assignments
    from lamatext.views.terminal_dataset import overlap_warning, show_dataset

    _check_goal(metric, min_precision)
    options.check_outputs(
        pages=[html, report],
        force=force or resume,
        inputs=(data, test, validation, without, old_data, recipe, teacher, *(unlabelled or [])),
        models=(from_, teacher),
    )
    options_of_settings: dict[str, object] = {
        "seed": seed,
        "text.word_vectors": word_vectors,
        "training.metric": metric,
        "training.min_precision": min_precision,
    }
    settings = _resolve_settings(
        {key: value for key, value in options_of_settings.items() if value is not None}
        | parse_assignments(set_ or []),
        {"--model": model, "--recipe": recipe, "--teacher": teacher},
        from_,
        out,
    )
    baseline_names = _baseline_names(baselines)
    with (
        prepare_run_folder(out, resume=resume, force=force),
        # Entered before the progress bar, which would wrap or erase the printed command.
        _explain_interrupt(out, resume=resume),
        _join_processes(devices, device),
        output.progress(quiet=quiet) as progress,
    ):
        progress.stage(f"reading {source_name(data)}")
        sources = DataSources(
            data,
            test,
            validation,
            without,
            reading,
            _teacher_options(teacher, unlabelled, id_column),
            _find_start(from_, old_data, reading, progress),
        )
        splits = (stream_splits if stream else read_splits)(sources, settings, progress)
        _check_several_labels(
            splits.train, data, {"--metric": metric, "--min-precision": min_precision}
        )
        if resume and is_finished(out, settings, splits):
            _write_pages(out, splits, html, report, progress)  # which may be what is missing
            progress.note(_finished_note(out, html, report))
            return
        summary = show_dataset(
            splits.train,
            splits.validation,
            splits.test,
            progress,
            folds=len(splits.folds),
            held_out=settings.training.validation_fraction,
        )
        progress.section("Training")
        result = train_and_score(
            splits,
            settings,
            out,
            progress,
            baselines=baseline_names,
            device=device,
            resume=resume,
            max_examples=0 if no_examples else MAX_EXAMPLES,
        )
        _write_pages(out, splits, html, report, progress)
    if as_json:
        print(json.dumps({"folder": str(out), **result.as_dict()}))
        return
    _show_result(result, overlap_warning(summary), quiet=quiet)
    if not quiet:
        for page in filter(None, (html, report)):
            output.message(f"Written to {page}: open it in a browser.")
        # stdin cannot be read again, and with cross-validation all texts are training texts
        is_gone = (test or data) == "-" or splits.folds or (stream and not test)
        cleaned = None if data == "-" or stream else data
        output.next_steps(
            *_commands_for_the_labels(out, cleaned, splits.train, reading),
            output.command("predict", out, "--text", output.YOUR_TEXT),
            output.command("explain", out, "--text", output.YOUR_TEXT),
            *([] if is_gone else [_evaluate_command(out, data, test, reading)]),
        )


def _baseline_names(baselines: str) -> list[str]:
    from lamatext.baselines import check_baselines

    names = [name for name in baselines.split(",") if name and name != "none"]
    check_baselines(names)
    return names


def _check_goal(metric: str | None, min_precision: float | None) -> None:
    from lamatext.errors import ConfigError
    from lamatext.label_thresholds import Metric

    known = get_args(Metric)
    if metric is not None and metric not in known:
        raise ConfigError(f"--metric {metric}: unknown. Known: {', '.join(known)}.")
    if min_precision is not None and not 0 < min_precision < 1:
        raise ConfigError(
            f"--min-precision ({min_precision:g}) must be above 0 and below 1, such as 0.9."
        )


def _check_several_labels(train: "Dataset", data: str, goal: Mapping[str, object]) -> None:
    from lamatext.errors import ConfigError

    option = next((name for name, value in goal.items() if value is not None), None)
    if option is not None and not train.is_multi_label:
        raise ConfigError(
            f"{option} is for several labels per text, but {data} has one label per text. Leave it "
            "out, or name the separator of joined labels with --label-separator."
        )


def _teacher_options(
    teacher: str | None, unlabelled: list[str] | None, id_column: str | None
) -> "TeacherOptions | None":
    from lamatext.errors import ConfigError
    from lamatext.pipeline import TeacherOptions

    if teacher is not None:
        return TeacherOptions(teacher, unlabelled or (), id_column)
    if unlabelled or id_column:
        option = "--unlabelled" if unlabelled else "--id-column"
        raise ConfigError(f"{option} needs a teacher: add --teacher minilm, for example.")
    return None


def _resolve_settings(
    values: dict[str, object], bases: dict[str, str | None], start: Path | None, out: Path
) -> "Recipe":
    """Resolve the settings of ``lamatext train`` from its options and the ``--from`` model.

    ``bases`` maps the options that choose a base recipe or network to their values.
    """
    from lamatext.errors import ConfigError
    from lamatext.recipes import continue_recipe, resolve_recipe
    from lamatext.saved.format import load_config, saved_recipe

    if start is None:
        recipe = bases["--recipe"] or _default_recipe(bases["--teacher"])
        return resolve_recipe(model=bases["--model"], recipe=recipe, values=values)
    for option, value in bases.items():
        if value is not None:
            raise ConfigError(
                f"{option} {value} does not go with --from: the model to continue keeps its "
                "network and settings. Leave one of the two out."
            )
    config = load_config(start)
    if out.resolve() == start.resolve():
        raise ConfigError(
            f"{out}: is the model to continue, which stays as it is. Give --out another folder."
        )
    return continue_recipe(saved_recipe(start, config), values, again="ancestors" in config)


def _find_start(
    start: Path | None, old_data: str | None, reading: "ReadOptions", progress: Progress
) -> "StartModel | None":
    """Find the training and test data of the model that ``lamatext train --from`` continues.

    Print a note if some of that data cannot be found.
    """
    from lamatext.data.read_options import ReadOptions
    from lamatext.errors import ConfigError
    from lamatext.evaluation import find_start_model

    if start is None:
        if old_data is not None:
            raise ConfigError("--old-data needs a model to continue: add --from MODEL.")
        return None
    limits = ReadOptions(max_record=reading.max_record, max_bad_rows=reading.max_bad_rows)
    search = find_start_model(start, old_data, limits)
    for reason in search.untested:
        progress.note(
            f"The score on old data cannot be measured: {reason} Give labelled texts like the old "
            "ones, which the model has not seen, with --old-data."
        )
    if search.unknown:
        reasons = [reason for reason in search.unknown if reason not in search.untested]
        progress.note(
            f"Not all texts that {start} was trained on are known. "
            + " ".join(
                [*reasons, "If new test texts are among them, the score before is too high."]
            )
        )
    return search.model


def _default_recipe(teacher: str | None) -> str | None:
    if teacher is None:
        return None
    from lamatext.training.teachers import is_encoder_name

    return "student" if is_encoder_name(teacher) else None


def _evaluate_command(out: Path, data: str, test: str | None, reading: "ReadOptions") -> str:
    from lamatext.data.read_options import ReadOptions

    again = ReadOptions(  # the model remembers everything else
        format=None if test else reading.format,
        max_record=reading.max_record,
        max_bad_rows=reading.max_bad_rows,
    )
    return output.command("evaluate", out, test or data, *output.reading_options(again))


def _commands_for_the_labels(
    out: Path, data: str | None, train: "Dataset", reading: "ReadOptions"
) -> list[str]:
    """Return commands that read the labels in another way or, if labels look wrong, list those."""
    from lamatext.saved.format import load_config
    from lamatext.views.terminal_dataset import label_hints

    if data is None:
        return []
    hints = label_hints(train)
    if hints:
        return [output.repeated("--force", "--resume", options=("--force", *hints[0].options))]
    if "label_noise" not in load_config(out):
        return []
    read_as = output.reading_options(replace(reading, group_column=None, time_column=None))
    return [output.command("clean", data, "--out", output.unused_name("suspects.csv"), *read_as)]


def _work_for_another_process(device: str) -> None:
    """Run this process as a worker of ``lamatext train`` if torchrun launched it as one."""
    if "LOCAL_RANK" in os.environ and os.environ.get("RANK", "0") != "0":
        from lamatext.training.process_worker import main

        raise typer.Exit(main(device, os.getppid()))


@contextmanager
def _join_processes(devices: int | None, device: str) -> Iterator[None]:
    """Check ``--device`` and run the processes of ``lamatext train`` until the block ends."""
    options.check_device(device)
    from lamatext.training.process_group import training_processes
    from lamatext.training.trainer import pick_device

    with training_processes(devices, pick_device(device)):
        yield


def _show_result(result: "TrainingResult", warning: str | None, *, quiet: bool) -> None:
    from lamatext.runtime.predictor import Predictor
    from lamatext.saved.format import load_config, saved_recipe
    from lamatext.views.formatting import one_line
    from lamatext.views.terminal_scores import show_changes, show_examples, show_leaderboard

    console = output.out()
    if not quiet:
        output.section("Result")
    show_leaderboard(console, result.leaderboard, result.scores.texts, result.folds)
    if warning is not None:
        console.print(warning, markup=False)
    if saved_recipe(result.folder, load_config(result.folder)).training.class_weight is not None:
        console.print(
            "Class weights find more texts of rare classes at the cost of accuracy: `lamatext "
            "evaluate` with texts that are not in the training data shows precision and recall per "
            "class.",
            markup=False,
        )
    if result.changes:
        console.print()
        show_changes(console, result.changes)
    examples = result.examples[:SHOWN_EXAMPLES]
    show_examples(console, Predictor.load(result.folder), examples, result.folds)
    console.print()
    console.print(one_line(f"Saved to {result.folder}"), markup=False)


def _finished_note(out: Path, html: Path | None, report: Path | None) -> str:
    pages = " and ".join(str(page) for page in (html, report) if page is not None)
    done = f"only {pages} had to be written" if pages else "nothing to do"
    return f"{out}: the run is already finished; {done}."


def _write_pages(
    folder: Path,
    splits: "Splits",
    html: Path | None,
    report: Path | None,
    progress: Progress,
) -> None:
    from lamatext.data.dataset import EvaluationData
    from lamatext.saved.format import load_metrics
    from lamatext.views.explanation_page import write_test_page
    from lamatext.views.report.collect import collect_findings
    from lamatext.views.report.report_page import write_report

    is_seen = bool(splits.folds)
    what = "TRAINED ON" if is_seen else "not trained on"
    about = f"{plural(len(splits.test), 'text')} that it was {what}"
    try:
        if html is not None:
            write_test_page(folder, splits.test, load_metrics(folder)["test"], html)
        if report is not None:
            data = EvaluationData(splits.test, splits.train, about, is_seen)
            write_report(collect_findings(folder, data, progress=progress), report)
    except DataError as error:
        raise DataError(
            f"{error} The model is complete and saved in {folder}. Write the page with:\n"
            f"  {_resume_command()}"
        ) from error


@contextmanager
def _explain_interrupt(out: Path, *, resume: bool) -> Iterator[None]:
    """Handle an interrupted ``lamatext train`` by printing what was saved and how to continue.

    The interruption is a Ctrl-C, or the end of another process of the same training run.
    """
    from lamatext.errors import ProcessError
    from lamatext.saved.format import CHECKPOINT, CONFIG, TEACHER_CHECKPOINTS

    checkpoints = [out / name for name in (CHECKPOINT, *TEACHER_CHECKPOINTS)]
    model = out / CONFIG
    foreign_checkpoints = {None} if resume else {None, *map(_modification_time, checkpoints)}
    model_before = _modification_time(model)
    try:
        yield
    except (KeyboardInterrupt, ProcessError) as error:
        if not foreign_checkpoints.issuperset(map(_modification_time, checkpoints)):
            message = f"finished epochs are saved in {out}. Continue with:\n  {_resume_command()}"
        elif _modification_time(model) != model_before:
            message = (
                f"the model is complete and saved in {out}, but a page was not written. Write it "
                f"with:\n  {_resume_command()}"
            )
        else:
            again = output.repeated("--resume")
            message = f"no epoch was finished, so nothing is saved. Start again with:\n  {again}"
        if isinstance(error, ProcessError):
            output.message(f"\nlamatext: {error} {message[0].upper()}{message[1:]}")
            raise typer.Exit(1) from None
        output.message(f"\nlamatext: interrupted; {message}")
        raise typer.Exit(130) from None


def _resume_command() -> str:
    return f"{output.repeated('--resume', '--force')} --resume"


def _modification_time(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.is_file() else None
