"""``python -m benchmarks ablation``: what each part of the default recipe contributes.

One part of the recipe is changed at a time. A tenth of the training part is held out and scored;
the test parts are not read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import mean, stdev
from typing import Annotated, NamedTuple

import numpy as np
import typer
from safetensors.numpy import save

from benchmarks.accuracy_jobs import (
    ALL_DATASETS,
    ALL_SEEDS,
    RECORDS,
    AccuracyJob,
    Datasets,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    dataset_name,
    device_name,
    run_accuracy_jobs,
    split_names,
)
from benchmarks.leaderboard import score_saved
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import stratified_split
from lamatext.data.tokenizer import make_tokenizer
from lamatext.metrics import Scores, score
from lamatext.ngrams.fitting import fit_ngrams
from lamatext.probabilities import softmax
from lamatext.recipes import load_recipe
from lamatext.settings import Recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings
from lamatext.training.calibration import calibrate_ngrams
from paper.markdown import MISSING, markdown_table
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "ablation"
METRICS = ("accuracy", "log_loss", "macro_f1", "calibration_error")  # and the bytes
HELD_OUT = 0.1  # of the training part, for scoring; as much again for validation
FULL = "full recipe"
NGRAMS_ONLY = "without the network"  # not a setting: only the n-gram model is fitted
CHANGES: dict[str, dict[str, object]] = {
    FULL: {},
    NGRAMS_ONLY: {},
    "without n-grams": {"ngrams.enabled": False},
    "without character n-grams": {"ngrams.characters": False},
    "with character n-grams": {"ngrams.characters": True},
    "word unigrams only": {"ngrams.max_words": 1},
    "without naive-Bayes weights": {"ngrams.naive_bayes_power": 0.0},
    "naive-Bayes weights to the power 1": {"ngrams.naive_bayes_power": 1.0},
    "without attention temperature": {"model.initial_temperature": None},
    "random word vectors": {"text.word_vectors": "random"},
    "without embedding dropout": {"model.embedding_dropout": 0.0},
    "first words only": {"text.last_words": 0},
    "stored as float32": {"storage": "float32"},
}
ALL_CHANGES = ",".join(CHANGES)
ONLY_ON = {  # elsewhere ``auto`` chooses this anyway, or few texts are that long
    "without character n-grams": ("news", "mr", "r52", "topics", "authors"),
    "with character n-grams": ("r8", "clothing", "imdb", "newsgroups"),
    "first words only": ("imdb",),
}
SHOWN_DATASETS = ("r8", "imdb", "news", "clothing", "mr", "r52", "topics")


class Parts(NamedTuple):
    """The training part of a data set in three: to train, to validate, and held out to score."""

    train: Dataset
    validation: Dataset
    held_out: Dataset


def ablation_jobs(
    datasets: Sequence[str], seeds: Sequence[int], changes: Sequence[str] = tuple(CHANGES)
) -> Iterator[AccuracyJob]:
    """Yield the ablation jobs: of each data set the full recipe first, then its changes."""
    for dataset in datasets:
        name = dataset_name(dataset)
        for change in (FULL, *(change for change in changes if change != FULL)):
            if name in ONLY_ON.get(change, (name,)):
                yield from (AccuracyJob(dataset, change, seed) for seed in seeds)


def changed_recipe(job: AccuracyJob) -> Recipe:
    """Return the default recipe with the ablation's one change and the job's seed."""
    return load_recipe("default").with_values({**CHANGES[job.model], "seed": job.seed})


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train the changed recipe and return the records of its ablation scores."""
    recipe = changed_recipe(job)
    parts = split_training_part(load_paper_dataset(job.dataset), recipe)
    if job.model == NGRAMS_ONLY:
        scores, size = score_ngram_model(recipe, parts)
        used_device = "cpu"
    else:
        classifier = TextClassifier.of_recipe(recipe, device=device)
        validation = (parts.validation.texts, parts.validation.labels)
        classifier.fit(parts.train.texts, parts.train.labels, validation_data=validation)
        scores, size, _ = score_saved(classifier, parts.held_out)
        used_device = device_name(device)
    values = {metric: float(getattr(scores, metric)) for metric in METRICS} | {"bytes": size}
    return [
        Record(
            EXPERIMENT,
            job.dataset_name,
            job.model,
            metric,
            value,
            job.seed,
            device=used_device,
            config=CHANGES[job.model],
        ).with_provenance()
        for metric, value in values.items()
    ]


def first_record(job: AccuracyJob) -> Record:
    """Return the record whose key shows that an ablation job has been measured."""
    config = CHANGES[job.model]
    return Record(EXPERIMENT, job.dataset_name, job.model, METRICS[0], 0.0, job.seed, config=config)


def split_training_part(train: Dataset, recipe: Recipe) -> Parts:
    """Hold out a tenth of the training part for the ablation's scores, another for validation."""
    shares = (1 - HELD_OUT, HELD_OUT)
    rows, held_out = stratified_split(train.require_labels(), shares, recipe.seed)
    rest = train.take(rows)
    share = recipe.training.validation_fraction / (1 - HELD_OUT)
    rows, validation = stratified_split(rest.require_labels(), (1 - share, share), recipe.seed)
    return Parts(rest.take(rows), rest.take(validation), train.take(held_out))


def score_ngram_model(recipe: Recipe, parts: Parts) -> tuple[Scores, int]:
    """Return scores and bytes of the n-gram model alone, calibrated on the validation texts."""
    encoder = LabelEncoder.fit(parts.train.require_labels())
    labels, validation_labels, held_out_labels = (
        encoder.encode(part.require_labels(), place=part.place) for part in parts
    )
    train, validation, held_out = (_tokenize(part, recipe) for part in parts)
    counts = Counter(chain.from_iterable(train)).values()
    once = sum(count == 1 for count in counts)
    classes = len(encoder.classes)
    size = DatasetSize(len(train), sum(counts), once, classes)
    ngrams = resolve_auto_settings(recipe, size).ngrams
    logits = fit_ngrams(train, labels, ngrams, classes=classes).logits(validation)
    scale, _, bias, _ = calibrate_ngrams(logits, validation_labels)
    all_labels = np.concatenate([labels, validation_labels])
    model = fit_ngrams([*train, *validation], all_labels, ngrams, classes=classes).scaled(
        scale, bias
    )
    probabilities = softmax(model.logits(held_out)).astype(np.float64)
    return score(encoder.classes, held_out_labels, probabilities), len(save(model.to_tensors()))


def _tokenize(dataset: Dataset, recipe: Recipe) -> list[list[str]]:
    tokenizer = make_tokenizer(recipe.text.tokenizer, lower=recipe.text.lowercase)
    return [tokenizer.words(text) for text in dataset.texts.to_pylist()]


Values = Mapping[tuple[str, str, str], Mapping[int | None, float]]  # (change, set, metric) by seed


def values_by_seed(records: Records) -> Values:
    """Return the ablation's recorded values by change, data set and metric, then by seed."""
    values: dict[tuple[str, str, str], dict[int | None, float]] = {}
    for record in records.of(EXPERIMENT):
        key = (record.model, record.dataset, record.metric)
        values.setdefault(key, {})[record.seed] = record.number
    return values


def differences(values: Values, change: str, dataset: str, metric: str) -> list[float]:
    """Return the ablation's changed minus full value for each seed that has both."""
    full = values.get((FULL, dataset, metric), {})
    changed = values.get((change, dataset, metric), {})
    return [changed[seed] - full[seed] for seed in changed if seed in full]


def mean_difference(values: Values, change: str, metric: str) -> float:
    """Return an ablation's difference, averaged over seeds and then over the data sets."""
    by_dataset = [differences(values, change, dataset, metric) for dataset in SHOWN_DATASETS]
    return mean(mean(found) for found in by_dataset if found)


def ablation_table(records: Records, metric: str, title: str) -> str:
    """Format the full recipe's values and each change's difference from them."""
    values = values_by_seed(records)
    rows = [
        [change, *(_cell(values, change, dataset, metric) for dataset in SHOWN_DATASETS)]
        for change in CHANGES
    ]
    return markdown_table([title, *SHOWN_DATASETS], rows)


def _cell(values: Values, change: str, dataset: str, metric: str) -> str:
    if change == FULL:
        by_seed = values.get((FULL, dataset, metric))
        return f"{mean(by_seed.values()):.4f}" if by_seed else MISSING
    scale, digits = (100, 2) if metric == "accuracy" else (1, 4)  # accuracy in points
    found = [scale * value for value in differences(values, change, dataset, metric)]
    if not found:
        return MISSING
    spread = f" ± {stdev(found):.{digits}f}" if len(found) > 1 else ""
    return f"{mean(found):+.{digits}f}{spread}".replace("-", "−")


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Datasets = ALL_DATASETS,
    seeds: Seeds = ALL_SEEDS,
    changes: Annotated[str, typer.Option(help="Changes, separated by commas.")] = ALL_CHANGES,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train the default recipe with one part changed at a time and record validation scores."""
    seed_numbers = [int(seed) for seed in split_names(seeds)]
    jobs = list(ablation_jobs(split_names(datasets), seed_numbers, split_names(changes)))
    run_accuracy_jobs(
        Records(records, force=force),
        jobs,
        measure_job,
        first_record,
        device=device,
        workers=workers,
    )
