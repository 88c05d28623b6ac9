"""``python -m benchmarks distillation``: a student, its teacher and the alternatives on few labels.

Of each training part, some texts keep their labels (a stratified draw by seed) and the others are
unlabelled. Each system is scored once on the test part; ``--validation`` scores it on a tenth of
the training part instead, which no system sees, to choose settings. A system may have settings
that differ from its recipe: ``student:text.min_count=2:distillation.teachers=1``, or
``teacher:training.learning_rate=5e-5`` of its fine-tuning.
"""

import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import ArrayLike

from benchmarks import leaderboard
from benchmarks.accuracy_jobs import (
    ALL_SEEDS,
    RECORDS,
    AccuracyJob,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    device_name,
    run_accuracy_jobs,
    split_names,
)
from benchmarks.setfit import SetFit
from lamatext.baselines import LeaderboardRow, train_baseline
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import hold_out
from lamatext.metrics import score
from lamatext.nn.pretrained import PretrainedNetwork
from lamatext.recipes import load_recipe, parse_assignments
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import folder_size
from lamatext.training.teachers import (
    EncoderTeacher,
    TeachingPlan,
    TrainedEncoder,
    fine_tuning_settings,
    teacher_data,
)
from lamatext.training.trainer import pick_device, train
from paper.markdown import MISSING, markdown_table
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "distillation"
TASKS = "r8,imdb,news,clothing,mr,mr+imdb,imdb=300,news=200,mr=500,r8=100"
SYSTEMS = (
    "student,default,default-minilm-vectors,teacher,minilm-lr,setfit,tfidf,tfidf-svc,tfidf-chars"
)
TITLES = {
    "student": "student",
    "default": "default recipe",
    "default-minilm-vectors": "default with MiniLM's word vectors",
    "teacher": "fine-tuned MiniLM (the teacher)",
    "minilm-lr": "MiniLM embeddings + logistic regression",
    "setfit": "SetFit on MiniLM",
    "tfidf": "TF-IDF + logistic regression",
    "tfidf-svc": "TF-IDF + LinearSVC",
    "tfidf-chars": "TF-IDF words and characters + LinearSVC",
}
CURVES = {"imdb": 25_000, "news": 20_193, "mr": 7_108}  # data sets with their number of labels
COLOURS = {
    "student": "tab:blue",
    "default": "tab:cyan",
    "tfidf": "tab:gray",
    "minilm-lr": "tab:orange",
    "teacher": "tab:red",
}
SIDE_BY_SIDE = "latency"  # not a system, but the latency of student and default in one run
METRICS = ("accuracy", "calibration_error", "bytes", "seconds", "latency_ms")
HELD_OUT = 0.1
BYTES_OF_MINILM = 90_864_192
MORE_SENTENCES = 150_000  # of another data set's training part, as unlabelled texts
SENTENCE_WORDS = (5, 40)  # fewest and most words of such a sentence
TEACHER_MINUTES = 60  # more than the default: other runs on the GPU do not shorten the teaching
LATENCY_TEXTS = 100  # predicted one at a time

Predict = Callable[[list[str]], ArrayLike]


class Task(NamedTuple):
    """The data of one distillation: labelled texts, unlabelled texts and texts to score."""

    labelled: Dataset
    unlabelled: list[str]
    test: Dataset


def load_task(name: str, seed: int, *, validation: bool) -> Task:
    """Load the data of a distillation task, such as ``mr``, ``imdb=300`` or ``mr+imdb``.

    ``mr+imdb`` adds 150,000 sentences of the training part of imdb as unlabelled texts, and
    ``mr+imdb=50000`` as many as that.
    """
    name, _, other = name.partition("+")
    dataset, _, count = name.partition("=")
    train = load_paper_dataset(dataset)
    if validation:
        rows, held_out = hold_out(train.require_labels(), HELD_OUT, 1_000 + seed, source=dataset)
        train, test = train.take(rows), train.take(held_out)
    else:
        test = load_paper_dataset(dataset, "test")
    if not count:
        other, _, most = other.partition("=")
        more = draw_sentences(other, seed, int(most or MORE_SENTENCES)) if other else []
        return Task(train, more, test)
    fraction = int(count) / len(train)
    rest, rows = hold_out(train.require_labels(), fraction, seed, source=dataset)
    labels = np.array(train.require_labels().to_pylist())
    missing = sorted(set(labels[rest]) - set(labels[rows]))  # classes too rare for the draw
    added = np.array([rest[labels[rest] == label][0] for label in missing], np.int64)
    rows, rest = np.append(rows, added), np.setdiff1d(rest, added)
    return Task(train.take(rows), train.take(rest).texts.to_pylist(), test)


def draw_sentences(dataset: str, seed: int, most: int) -> list[str]:
    """Draw sentences from a data set's training part, as unlabelled texts of a distillation."""
    texts = load_paper_dataset(dataset).texts.to_pylist()
    sentences = sorted({sentence for text in texts for sentence in split_sentences(text)})
    rows = np.random.default_rng(seed).permutation(len(sentences))[:most]
    return [sentences[row] for row in rows]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text that have 5 to 40 words.

    A sentence ends with a full stop, an exclamation or a question mark, or with a line break.
    """
    shortest, longest = SENTENCE_WORDS
    sentences = re.split(r"(?<=[.!?])\s+|\s*<br />\s*|\n+", text)
    return [each for each in sentences if shortest <= len(each.split()) <= longest]


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train and score one system of the distillation benchmark."""
    system, _, part = job.model.partition("@")
    system, *settings = system.split(":")
    assert job.seed is not None
    task = load_task(job.dataset, job.seed, validation=part == "validation")
    if system == SIDE_BY_SIDE:
        return [
            Record(
                EXPERIMENT, job.dataset, system, name, value, job.seed, device="cpu"
            ).with_provenance()
            for name, value in _latencies(task, job.seed, device).items()
        ]
    facts: dict[str, object] = {}
    match system:
        case "student" | "default" | "default-minilm-vectors":
            given = parse_assignments(settings)
            row, latency, facts = _score_classifier(task, system, job.seed, device, given)
        case "teacher" | "minilm-lr" | "setfit":
            given = parse_assignments(settings)
            row, latency = _score_encoder(task, system, job.seed, device, given)
        case _:
            baseline = train_baseline(system, task.labelled)
            row = baseline.evaluate(task.test)
            latency = _latency(baseline.model.predict_proba, task.test)
    values = {name: float(getattr(row, name, latency)) for name in METRICS}
    if isinstance(accuracy := facts.get("validation_accuracy"), float):
        values["teacher_validation_accuracy"] = accuracy
    return [
        Record(
            EXPERIMENT, job.dataset, job.model, name, value, job.seed, device=device_name(device)
        ).with_provenance()
        for name, value in values.items()
    ]


def _score_classifier(
    task: Task, system: str, seed: int, device: str, settings: Mapping[str, object]
) -> tuple[LeaderboardRow, float, dict[str, object]]:
    """Train a student or the default recipe, and score and time the saved model."""
    is_student = system == "student"
    classifier = TextClassifier(
        teacher="minilm" if is_student else None,
        word_vectors="minilm" if system == "default-minilm-vectors" else None,
        random_state=seed,
        device=device,
        settings={"distillation.teacher_minutes": TEACHER_MINUTES, **settings},
    )
    more = task.unlabelled if is_student and task.unlabelled else None
    started = time.perf_counter()
    classifier.fit(task.labelled.texts, task.labelled.labels, unlabelled=more)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        size, predict = folder_size(Path(folder)), Predictor.load(folder).predict_proba
        row = _score(system, predict, task, classifier.classes_.tolist(), size, seconds)
        return row, _latency(predict, task.test), classifier.facts_.get("teacher", {})


def _score_encoder(
    task: Task, system: str, seed: int, device: str, settings: Mapping[str, object]
) -> tuple[LeaderboardRow, float]:
    """Train MiniLM as a teacher, a linear layer on its embeddings, or SetFit, and score it."""
    encoder = LabelEncoder.fit(task.labelled.require_labels())
    started = time.perf_counter()
    if system == "setfit":
        setfit = SetFit(seed=seed, device=str(pick_device(device)))
        setfit.fit(task.labelled.texts.to_pylist(), encoder.encode(task.labelled.require_labels()))
        predict: Predict = setfit.predict_proba
    else:
        recipe = load_recipe("student").with_values({"seed": seed})
        data = teacher_data(task.labelled, None, task.unlabelled, encoder.classes, recipe)
        teacher = EncoderTeacher("minilm", data, recipe, device)
        plan = TeachingPlan(0, 256, 0, 1, 0.0)
        if system == "teacher":
            plan = teacher.plan([*data.train.texts.to_pylist(), *data.unlabelled])
        trained = _fine_tune(teacher, plan, settings) if settings else teacher.train(plan)
        predict = trained.predict_proba
    seconds = time.perf_counter() - started
    row = _score(system, predict, task, encoder.classes, BYTES_OF_MINILM, seconds)
    return row, _latency(predict, task.test)


def _fine_tune(
    teacher: EncoderTeacher, plan: TeachingPlan, settings: Mapping[str, object]
) -> TrainedEncoder:
    """Fine-tune the teacher of a distillation with other settings than its own."""
    data = teacher.data
    values = {"model.pretrained": teacher.name, "seed": teacher.recipe.seed}
    recipe = load_recipe("teacher").with_values(
        {**values, **fine_tuning_settings(plan, data), **settings}
    )
    trained = train(
        data.train, data.validation, recipe, classes=data.classes, device=teacher.device
    )
    assert isinstance(trained.network, PretrainedNetwork)
    device = pick_device(teacher.device)
    return TrainedEncoder(teacher.name, [(trained.network, trained.encoder)], device)


def _score(
    title: str, predict: Predict, task: Task, classes: Sequence[Any], size: int, seconds: float
) -> LeaderboardRow:
    """Score the probabilities of a trained model on the texts of a distillation task."""
    texts, started = task.test.texts.to_pylist(), time.perf_counter()
    probabilities = np.asarray(predict(texts), np.float64)
    speed = len(texts) / (time.perf_counter() - started)
    truth = LabelEncoder(tuple(classes)).encode(task.test.require_labels())
    scores = score(classes, truth, probabilities)
    return LeaderboardRow.from_scores(title, scores, size=size, speed=speed, seconds=seconds)


def _latency(predict: Predict, test: Dataset) -> float:
    """Return the median latency of one test text in milliseconds."""
    texts = test.texts.slice(0, LATENCY_TEXTS).to_pylist()
    return 1e3 * median(_seconds(predict, text) for text in texts)


def _seconds(predict: Predict, text: str) -> float:
    started = time.perf_counter()
    predict([text])
    return time.perf_counter() - started


def _latencies(task: Task, seed: int, device: str) -> dict[str, float]:
    """Measure the latency of the student's and the default recipe in turns, and its ratio.

    They are trained for one epoch and without a teacher, on which latency does not depend.
    """
    predictors = []
    for recipe in ("student", "default"):
        classifier = TextClassifier(
            recipe=recipe, random_state=seed, device=device, settings={"training.epochs": 1}
        )
        classifier.fit(task.labelled.texts, task.labelled.labels)
        with tempfile.TemporaryDirectory() as folder:
            predictors.append(Predictor.load(classifier.save(folder)).predict_proba)
    texts = task.test.texts.slice(0, LATENCY_TEXTS).to_pylist()
    times = [[_seconds(predict, text) for predict in predictors] for text in texts * 3]
    student, default = 1e3 * np.median(times, axis=0)
    return {"student_ms": student, "default_ms": default, "ratio": student / default}


def first_record(job: AccuracyJob) -> Record:
    """Return the record whose key shows that a distillation job is finished."""
    metric = "ratio" if job.model == SIDE_BY_SIDE else METRICS[0]
    return Record(EXPERIMENT, job.dataset, job.model, metric, 0.0, job.seed)


def distillation_table(records: Records) -> str:
    """Return the table of the mean test accuracy of each system on each task, with its seeds."""
    cells = _test_accuracies(records)
    systems = [name for name in SYSTEMS.split(",") if any(model == name for _, model in cells)]
    rows = []
    for task in TASKS.split(","):
        values = [cells.get((task, system), []) for system in systems]
        if any(values):
            shown = [f"{np.mean(v):.3f} ({len(v)})" if v else MISSING for v in values]
            rows.append([task, *shown])
    return markdown_table(["data set=labels", *(TITLES[name] for name in systems)], rows)


def distillation_trials_table(records: Records) -> str:
    """Return the table of the student's accuracy on held-out training texts by its settings."""
    cells: dict[tuple[str, str], list[float]] = {}
    for record in records.of(EXPERIMENT):
        system, _, part = record.model.partition("@")
        if record.metric == "accuracy" and part == "validation" and system.startswith("student"):
            settings = [setting.partition(".")[2] for setting in system.split(":")[1:]]
            settings += [f"{name}={value}" for name, value in record.config.items()]
            name = ", ".join(settings) or "the rule"
            cells.setdefault((record.dataset, name), []).append(record.number)
    rows = [
        [task, name, *(f"{value:.3f}" for value in (float(np.mean(values)), *values))]
        for (task, name), values in sorted(cells.items())
        if len(values) == len(ALL_SEEDS.split(","))
    ]
    return markdown_table(["data set", "settings", "mean", "split 0", "split 1", "split 2"], rows)


def teacher_trials_table(records: Records) -> str:
    """Return the table of the teacher's accuracy on held-out training texts by its settings."""
    cells: dict[tuple[str, str], list[float]] = {}
    for record in records.of(EXPERIMENT):
        system, _, part = record.model.partition("@")
        if record.metric == "accuracy" and part == "validation" and system.startswith("teacher:"):
            settings = [setting.partition(".")[2] for setting in system.split(":")[1:]]
            cells.setdefault((record.dataset, ", ".join(settings)), []).append(record.number)
    rows = [
        [task, name, f"{np.mean(values):.4f}", str(len(values))]
        for (task, name), values in sorted(cells.items())
    ]
    return markdown_table(["data set", "fine-tuning of the teacher", "mean", "splits"], rows)


def distillation_cost_table(records: Records) -> str:
    """Return the table of size, latency, training time and calibration error of each system."""
    columns = {
        "bytes": ("size", 1e-6, "MB"),
        "latency_ms": ("one text", 1.0, "ms"),
        "seconds": ("training", 1.0, "s"),
        "calibration_error": ("calibration error, all labels", 1.0, ""),
    }
    cells = {metric: _test_values(records, metric) for metric in columns}
    rows = []
    for system in SYSTEMS.split(","):
        row = [TITLES[system]]
        for metric, (_, factor, unit) in columns.items():
            found = [
                factor * float(np.mean(values))
                for (task, model), values in cells[metric].items()
                if model == system
                and task in TASKS.split(",")
                and (metric != "calibration_error" or "=" not in task)
            ]
            row.append(_range(found, unit))
        rows.append(row)
    return markdown_table(["system", *(title for title, _, _ in columns.values())], rows)


def distillation_latency_table(records: Records) -> str:
    """Return the table of the latency of student and default recipe, measured in one run."""
    names = ("default_ms", "student_ms", "ratio")
    cells = {name: _test_values(records, name) for name in names}
    rows = []
    for task in TASKS.split(","):
        values = [cells[name].get((task, SIDE_BY_SIDE), []) for name in names]
        if all(values):
            default, student, ratio = (float(np.mean(each)) for each in values)
            rows.append([task, f"{default:.2f} ms", f"{student:.2f} ms", f"{ratio:.2f}"])
    return markdown_table(["data set", "default recipe", "student", "ratio"], rows)


def _range(values: Sequence[float], unit: str) -> str:
    """Format the smallest and the largest mean of a distillation system over its tasks."""
    if not values:
        return MISSING
    digits = 3 if not unit else 0 if max(values) >= 100 else 1
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return f"{low if low == high else f'{low} to {high}'} {unit}".strip()


def _test_values(records: Records, metric: str) -> dict[tuple[str, str], list[float]]:
    """Return the values of a metric on test texts, by task and system of the distillation."""
    cells: dict[tuple[str, str], list[float]] = {}
    for record in records.of(EXPERIMENT):
        if record.metric == metric and "@" not in record.model:
            cells.setdefault((record.dataset, record.model), []).append(record.number)
    return cells


def _test_accuracies(records: Records) -> dict[tuple[str, str], list[float]]:
    """Return the test accuracies by task and system of the distillation.

    With all labels, those of the default recipe and of TF-IDF are the leaderboard's.
    """
    cells = _test_values(records, "accuracy")
    for record in records.of(leaderboard.EXPERIMENT):
        if record.metric == "accuracy" and record.model in TITLES:
            cells.setdefault((record.dataset, record.model), []).append(record.number)
    return cells


def draw_label_curves(records: Records, folder: Path) -> list[Path]:
    """Draw the test accuracy over the number of labels: mean, smallest and largest of the draws."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (dataset, size) in zip(figure.subplots(1, 3), CURVES.items(), strict=True):
        for system, colour in COLOURS.items():
            points = _curve(records, dataset, size, system)
            if not points:
                continue
            labels, values = zip(*points, strict=True)
            means = [float(np.mean(draws)) for draws in values]
            axes.plot(labels, means, "o-", color=colour, label=TITLES[system], markersize=4)
            low, high = [min(draws) for draws in values], [max(draws) for draws in values]
            axes.fill_between(labels, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_xscale("log")
        axes.set_xlabel("labelled texts")
        axes.set_title(dataset)
        axes.grid(visible=True, alpha=0.3)
    figure.axes[0].set_ylabel("test accuracy")
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=5, frameon=False
    )
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"accuracy_over_labels{ending}" for ending in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _curve(records: Records, dataset: str, size: int, system: str) -> list[tuple[int, list[float]]]:
    """Return the accuracies of a system on draws of a data set, by number of labels."""
    points = []
    for (task, model), values in _test_accuracies(records).items():
        name, _, count = task.partition("=")
        if name == dataset and model == system:
            points.append((int(count or size), values))
    return sorted(points)


def run(  # noqa: PLR0913 - each argument is one option on the command line
    tasks: Annotated[
        str, typer.Option(help="Data sets, each with =N for N labelled texts; commas between.")
    ] = TASKS,
    systems: Annotated[
        str, typer.Option(help=f"Of the default ones, or {SIDE_BY_SIDE}.")
    ] = SYSTEMS,
    seeds: Seeds = ALL_SEEDS,
    validation: Annotated[
        bool, typer.Option("--validation", help="Score on held-out training texts.")
    ] = False,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train students, teachers and alternatives, and record their scores."""
    suffix = "@validation" if validation else ""
    store = Records(records, force=force)
    run_accuracy_jobs(
        store,
        [
            AccuracyJob(task, system + suffix, int(seed))
            for task in split_names(tasks)
            for system in split_names(systems)
            for seed in split_names(seeds)
        ],
        measure_job,
        first_record,
        device=device,
        workers=workers,
    )
    draw_label_curves(store, records.parent / "figures")
