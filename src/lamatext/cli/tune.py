"""``lamatext tune``: search for the best settings within limits on time, size and latency."""

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lamatext.cli import options, output
from lamatext.data.read_options import source_name
from lamatext.errors import ConfigError, plural

if TYPE_CHECKING:
    from lamatext.data.read_options import ReadOptions
    from lamatext.tuning import TuningResult, TuningTask
    from lamatext.views.tuning_display import TrialDisplay

NAME = "tune"
EXAMPLES = """\
lamatext tune reviews.csv --time 10m --out runs/tuned
lamatext tune reviews.csv --time 10m --max-size 2MB --max-latency 1ms --metric macro-f1"""

SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
BYTES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
MILLISECONDS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
METRICS = {"accuracy": "accuracy", "micro-f1": "micro-F1", "macro-f1": "macro-F1"}
MAX_PROCESSES = 64  # without Ray
limit_option = options.options_of("limits")


@options.reads(*options.LABELLED, *options.SPLIT)
def run(  # noqa: PLR0913 - one argument per option of the command
    data: options.Data,
    *,
    time_: Annotated[
        str,
        limit_option(
            "--time", metavar="DURATION", help="The time for everything, such as 90s, 10m or 1h."
        ),
    ] = "10m",
    max_size: Annotated[
        str | None,
        limit_option(
            metavar="SIZE",
            help="The largest size of the saved model, such as 500kB or 5MB. [default: no limit]",
        ),
    ] = None,
    max_latency: Annotated[
        str | None,
        limit_option(
            metavar="DURATION",
            help="The largest median time to predict one text on this machine, such as 1ms. "
            "[default: no limit]",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="What to maximize on the validation texts: accuracy, macro-f1 or, with several "
            "labels per text, micro-f1. [default: accuracy; macro-f1 with several labels]"
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The folder for the study, the page and the model. A study that is there is "
            "continued.",
        ),
    ] = Path("runs/tuned"),
    jobs: Annotated[
        int | None,
        options.engine_option(
            min=1,
            max=1024,
            help="Number of trials at a time. [default: 1; with --engine ray, one per core]",
        ),
    ] = None,
    engine: options.Engine = "local",
    address: options.Address = None,
    test: options.TestData = None,
    validation: options.ValidationData = None,
    reading: "ReadOptions",
    recipe: options.RecipeName = None,
    set_: options.SettingValues = None,
    seed: options.Seed = None,
    device: options.Device = "auto",
    only_trials: Annotated[
        bool,
        typer.Option(
            "--only-trials",
            help="Only run trials; another process finishes the study. --jobs starts such ones.",
        ),
    ] = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Search for the best settings of a model with Optuna, within limits on time, size and latency.

    Trials are compared on the validation texts. The first is the default recipe, also with other
    seeds, so that the result says whether the search brought more than the spread of seeds. At the
    end the best recipe within the limits is trained as `lamatext train` does and saved in the
    folder --out as model. The same command continues the study, and several processes can work on
    it.
    """
    started = time.monotonic()
    from lamatext.pipeline import DataSources, read_splits
    from lamatext.recipes import parse_assignments, resolve_recipe
    from lamatext.trials import Limits
    from lamatext.tuning import TuningTask, tuning_splits
    from lamatext.views.terminal_dataset import show_dataset
    from lamatext.views.tuning_display import TrialDisplay

    limits = Limits(
        _parse_quantity(time_, SECONDS, "--time", "10m"),
        None if max_size is None else _parse_quantity(max_size, BYTES, "--max-size", "5MB"),
        None
        if max_latency is None
        else _parse_quantity(max_latency, MILLISECONDS, "--max-latency", "1ms"),
    )
    values = parse_assignments(set_ or [])
    if seed is not None:
        values["seed"] = seed
    if metric in ("micro-f1", "macro-f1"):
        values["training.metric"] = metric  # the thresholds of several labels, too
    settings = resolve_recipe(recipe=recipe, values=values)
    workers = _Workers(engine, address, jobs, only_trials)
    _check_search(metric, data, device, workers, out)
    with (
        output.explain_interrupt(lambda: "the search had not begun"),
        TrialDisplay(started + limits.seconds, quiet=quiet) as display,
    ):
        options.check_device(device)
        display.stage(f"reading {source_name(data)}")
        sources = DataSources(data, test, validation, reading=reading)
        splits = read_splits(sources, settings, display)
        task = TuningTask(
            tuning_splits(splits, settings.seed),
            settings,
            frozenset(values),
            _metric_name(metric, is_multi_label=splits.train.is_multi_label),
            limits,
            out,
            device,
            started,
        )
        final = task.splits.final
        show_dataset(
            final.train,
            final.validation,
            final.test,
            display,
            held_out=settings.training.validation_fraction,
        )
        display.metric = task.metric
        display.section("Search")
        result = _search(task, display, workers)
    if result is not None:
        _show_result(task, result, quiet=quiet)


class _Workers(NamedTuple):
    """Options of ``lamatext tune`` that select where trials run: locally or on a Ray cluster."""

    engine: str
    address: str | None
    jobs: int | None
    only_trials: bool  # for a study that another process finishes


def _search(
    task: "TuningTask", display: "TrialDisplay", workers: _Workers
) -> "TuningResult | None":
    """Run the trials and the final training of ``lamatext tune``, keeping the study on Ctrl-C."""
    from lamatext.tuning import finish_study, open_study, read_trials, study_errors_named
    from lamatext.views.tuning_display import write_tuning_page

    with study_errors_named(task.folder):
        study = open_study(task)
    try:
        with study_errors_named(task.folder):
            _run_trials(task, study, display, workers)
            if workers.only_trials:
                return None
            result = finish_study(task, study, display)
    except KeyboardInterrupt:
        if not workers.only_trials:
            finished = sum(trial.state != "running" for trial in read_trials(study))
            output.message(
                f"\nlamatext: interrupted; the study with {plural(finished, 'trial')} is kept in "
                f"{task.folder}. Continue it with:\n  {output.repeated()}"
            )
        raise typer.Exit(130) from None
    source = task.train.source
    write_tuning_page(
        result.trials, result.choice, task.metric, source, task.folder / "tuning.html"
    )
    return result


def _run_trials(task: "TuningTask", study: Any, display: "TrialDisplay", workers: _Workers) -> None:
    """Run the trials of ``lamatext tune`` on Ray or in several local processes."""
    if workers.engine == "ray":
        from lamatext.tuning import run_trials_on_ray

        address, jobs = workers.address, workers.jobs
        run_trials_on_ray(task, study, display.show, display, address=address, jobs=jobs)
        return
    from lamatext.tuning import run_trials, worker_processes

    more = 0 if workers.only_trials else (workers.jobs or 1) - 1
    command = [sys.executable, "-m", "lamatext", *sys.argv[1:], "--only-trials", "--quiet"]
    with worker_processes([command] * more):
        run_trials(task, study, display.show, display)


def _check_search(metric: str | None, data: str, device: str, workers: _Workers, out: Path) -> None:
    _check_folder(out)
    if metric is not None and metric not in METRICS:
        raise ConfigError(f"--metric {metric}: unknown. Known: {', '.join(METRICS)}.")
    options.check_engine(workers.engine, workers.address)
    if workers.engine == "ray":
        from lamatext.runtime.ray_engine import import_ray

        if device == "cuda":
            raise ConfigError("--engine ray trains trials on processor cores. Use --device cpu.")
        import_ray(workers.address)
        return
    if data == "-" and (workers.jobs or 1) > 1:
        raise ConfigError("--jobs needs a file: several processes cannot read stdin.")
    if (workers.jobs or 1) > MAX_PROCESSES:
        raise ConfigError(
            f"--jobs {workers.jobs}: at most {MAX_PROCESSES} processes run on one machine. Use "
            "--engine ray for more."
        )


def _check_folder(out: Path) -> None:
    """Check before the data is read that the study can be written to its folder."""
    from lamatext.atomic_write import check_writable
    from lamatext.tuning import STUDY

    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file. Give --out a folder.")
    check_writable(out / STUDY if out.is_dir() else out)


def _metric_name(metric: str | None, *, is_multi_label: bool) -> str:
    if metric == "accuracy" and is_multi_label:
        raise ConfigError(
            "--metric accuracy: the texts have several labels. Choose micro-f1 or macro-f1."
        )
    if metric == "micro-f1" and not is_multi_label:
        return "accuracy"  # they are equal with one label per text
    return METRICS[metric or ("macro-f1" if is_multi_label else "accuracy")]


def _parse_quantity(text: str, units: dict[str, float], option: str, example: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([A-Za-zµ]+)", text.strip())
    if match is None or match[2] not in units or float(match[1]) <= 0:
        raise ConfigError(
            f"{option} {text}: expected a number above 0 with a unit ({', '.join(units)}), such as "
            f"{example}."
        )
    return float(match[1]) * units[match[2]]


def _show_result(task: "TuningTask", result: "TuningResult", *, quiet: bool) -> None:
    from lamatext.errors import percent
    from lamatext.trials import pareto_front
    from lamatext.views.formatting import file_size, one_line
    from lamatext.views.terminal_scores import scores_sentence
    from lamatext.views.tuning_display import show_front

    if not quiet:
        output.section("Result")
    console = output.out()
    show_front(console, pareto_front(result.trials), result.choice.trial, task.metric)
    console.print(f"\n{result.choice.verdict}", markup=False)
    if result.final is not None:
        scores = result.final.scores
        trained = "Trained on all texts but the test texts"
        console.print(f"{trained}: {scores_sentence(scores)}", markup=False)
    else:
        share = percent(result.choice.trial.share, 0)
        console.print(
            f"The model of trial {result.choice.trial.number} is saved, trained on {share} of the "
            f"texts that are not held out: {result.reason}.",
            markup=False,
        )
    saved = (
        f"Saved to {result.folder}: {file_size(result.bytes)}, {result.latency_ms:.3f} ms per text"
    )
    console.print(one_line(saved), markup=False)
    if not quiet:
        output.message(f"Written to {task.folder / 'tuning.html'}: open it in a browser.")
        output.next_steps(
            output.command("predict", result.folder, "--text", output.YOUR_TEXT),
            output.command("explain", result.folder, "--text", output.YOUR_TEXT),
        )
