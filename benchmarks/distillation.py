"""``python -m benchmarks distillation``: a student, its teacher and the alternatives on few labels.

Of each training part, some texts keep their labels (a stratified draw by seed) and the others are
unlabelled. Each system is scored once on the test part; ``--validation`` scores it on a tenth of
the training part instead, which no system sees, to choose settings.
"""

import time
from typing import Annotated, NamedTuple

import numpy as np
import typer

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
from benchmarks.leaderboard import score_saved
from lamatext.baselines import LeaderboardRow, train_baseline
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import hold_out
from lamatext.metrics import score
from lamatext.recipes import load_recipe
from lamatext.training.teachers import EncoderTeacher, TeachingPlan, teacher_data
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "distillation"
TASKS = "r8,imdb,news,clothing,mr,imdb=300,news=200,mr=500,r8=100"
SYSTEMS = "student,default,teacher,minilm-lr,tfidf,tfidf-svc,tfidf-chars"
METRICS = ("accuracy", "calibration_error", "bytes", "seconds")
HELD_OUT = 0.1
BYTES_OF_MINILM = 90_864_192


class Task(NamedTuple):
    """The data of one distillation: labelled texts, unlabelled texts and texts to score."""

    labelled: Dataset
    unlabelled: list[str]
    test: Dataset


def load_task(name: str, seed: int, *, validation: bool) -> Task:
    """Load the data of a distillation task, such as ``mr`` or ``imdb=300``."""
    dataset, _, count = name.partition("=")
    train = load_paper_dataset(dataset)
    if validation:
        rows, held_out = hold_out(train.require_labels(), HELD_OUT, 1_000 + seed, source=dataset)
        train, test = train.take(rows), train.take(held_out)
    else:
        test = load_paper_dataset(dataset, "test")
    if not count:
        return Task(train, [], test)
    fraction = int(count) / len(train)
    rest, rows = hold_out(train.require_labels(), fraction, seed, source=dataset)
    labels = np.array(train.require_labels().to_pylist())
    missing = sorted(set(labels[rest]) - set(labels[rows]))  # classes too rare for the draw
    added = np.array([rest[labels[rest] == label][0] for label in missing], np.int64)
    rows, rest = np.append(rows, added), np.setdiff1d(rest, added)
    return Task(train.take(rows), train.take(rest).texts.to_pylist(), test)


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train and score one system of the distillation benchmark."""
    system, _, part = job.model.partition("@")
    assert job.seed is not None
    task = load_task(job.dataset, job.seed, validation=part == "validation")
    started = time.perf_counter()
    facts: dict[str, object] = {}
    match system:
        case "student" | "default":
            teacher = "minilm" if system == "student" else None
            classifier = TextClassifier(teacher=teacher, random_state=job.seed, device=device)
            more = task.unlabelled if system == "student" and task.unlabelled else None
            classifier.fit(task.labelled.texts, task.labelled.labels, unlabelled=more)
            seconds = time.perf_counter() - started
            scores, size, speed = score_saved(classifier, task.test)
            facts = classifier.facts_.get("teacher", {})
            row = LeaderboardRow.from_scores(
                system, scores, size=size, speed=speed, seconds=seconds
            )
        case "teacher" | "minilm-lr":
            row = _score_encoder(task, job.seed, device, fine_tune=system == "teacher")
        case _:
            row = train_baseline(system, task.labelled).evaluate(task.test)
    values = {metric: float(getattr(row, metric)) for metric in METRICS}
    if isinstance(accuracy := facts.get("validation_accuracy"), float):
        values["teacher_validation_accuracy"] = accuracy
    return [
        Record(
            EXPERIMENT, job.dataset, job.model, name, value, job.seed, device=device_name(device)
        ).with_provenance()
        for name, value in values.items()
    ]


def _score_encoder(task: Task, seed: int, device: str, *, fine_tune: bool) -> LeaderboardRow:
    """Train MiniLM as a teacher, or a linear layer on its embeddings, and score it."""
    encoder = LabelEncoder.fit(task.labelled.require_labels())
    recipe = load_recipe("student").with_values({"seed": seed})
    data = teacher_data(task.labelled, None, task.unlabelled, encoder.classes, recipe)
    teacher = EncoderTeacher("minilm", data, recipe, device)
    started = time.perf_counter()
    plan = TeachingPlan(0, 256, 0, 0.0)
    if fine_tune:
        plan = teacher.plan([*data.train.texts.to_pylist(), *data.unlabelled])
    trained = teacher.train(plan)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    probabilities = trained.predict_proba(task.test.texts.to_pylist()).astype(np.float64)
    speed = len(task.test) / (time.perf_counter() - started)
    truth = encoder.encode(task.test.require_labels(), source=task.test.source)
    scores = score(encoder.classes, truth, probabilities)
    return LeaderboardRow.from_scores(
        "MiniLM", scores, size=BYTES_OF_MINILM, speed=speed, seconds=seconds
    )


def first_record(job: AccuracyJob) -> Record:
    """Return the record whose key shows that a distillation job is finished."""
    return Record(EXPERIMENT, job.dataset, job.model, METRICS[0], 0.0, job.seed)


def distillation_table(records: Records) -> str:
    """Return the table of the mean test accuracy of each system on each task, with its seeds."""
    cells: dict[tuple[str, str], list[float]] = {}
    for record in records.of(EXPERIMENT):
        if record.metric == "accuracy" and "@" not in record.model:
            cells.setdefault((record.dataset, record.model), []).append(record.number)
    tasks = list(dict.fromkeys(task for task, _ in cells))
    systems = [name for name in SYSTEMS.split(",") if any(model == name for _, model in cells)]
    lines = [
        f"| data set=labels | {' | '.join(systems)} |",
        f"|---|{'--:|' * len(systems)}",
    ]
    for task in tasks:
        values = [cells.get((task, system), []) for system in systems]
        shown = [f"{np.mean(v):.3f} ({len(v)})" if v else "–" for v in values]
        lines.append(f"| {task} | {' | '.join(shown)} |")
    return "\n".join(lines)


def run(  # noqa: PLR0913 - each argument is one option on the command line
    tasks: Annotated[
        str, typer.Option(help="Data sets, each with =N for N labelled texts; commas between.")
    ] = TASKS,
    systems: Annotated[str, typer.Option(help="Of the default ones.")] = SYSTEMS,
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
    run_accuracy_jobs(
        Records(records, force=force),
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
