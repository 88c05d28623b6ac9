"""``python -m benchmarks batch-sizes``: accuracy and time of the network over the mini-batch size.

The data are the sentences of imdb's training reviews, more than 200,000 short texts, each with
the label of its review. The sentences of a tenth of the reviews are held out and scored; the test
part is not read. The n-grams are left out, because mini-batches change the network only.
"""

import time
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Annotated

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
from benchmarks.distillation import split_sentences
from lamatext.classifier import TextClassifier
from paper.markdown import markdown_table
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "batch_sizes"
BATCH_SIZES = "64,128,256"
HELD_OUT = 10  # every tenth review, from the seed on


def run(  # noqa: PLR0913 - each argument is one option on the command line
    dataset: Annotated[str, typer.Option(help="A data set of long texts.")] = "imdb",
    sizes: Annotated[str, typer.Option(help="Texts per mini-batch, commas between.")] = BATCH_SIZES,
    seeds: Seeds = ALL_SEEDS,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train the network on many sentences in mini-batches of several sizes and record scores."""
    store = Records(records, force=force)
    jobs = [
        AccuracyJob(dataset, size, int(seed))
        for size in split_names(sizes)
        for seed in split_names(seeds)
    ]
    run_accuracy_jobs(store, jobs, measure_job, _first_record, device=device, workers=workers)
    print(batch_size_table(store.of(EXPERIMENT)))


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train the network in mini-batches of one size and return the records of its scores."""
    assert job.seed is not None
    train, held_out = labelled_sentences(job.dataset, job.seed)
    settings = {"training.batch_size": int(job.model), "ngrams.enabled": False}
    classifier = TextClassifier(random_state=job.seed, device=device, settings=settings)
    started = time.perf_counter()
    classifier.fit(*train)
    seconds = time.perf_counter() - started
    texts, labels = held_out
    values = {
        "accuracy": float(np.mean(classifier.predict(texts) == np.array(labels))),
        "texts": float(len(train[0])),
        "seconds": seconds,
    }
    return [
        Record(
            EXPERIMENT,
            job.dataset_name,
            job.model,
            name,
            value,
            job.seed,
            device=device_name(device),
        ).with_provenance()
        for name, value in values.items()
    ]


Labelled = tuple[list[str], list[str]]  # sentences and their labels


def labelled_sentences(dataset: str, seed: int) -> tuple[Labelled, Labelled]:
    """Return sentences with the labels of their texts, and those of every tenth text, held out."""
    parts: tuple[Labelled, Labelled] = ([], []), ([], [])
    texts = load_paper_dataset(dataset)
    rows = zip(texts.texts.to_pylist(), texts.require_labels().to_pylist(), strict=True)
    for number, (text, label) in enumerate(rows):
        sentences, labels = parts[(number + seed) % HELD_OUT == 0]
        found = split_sentences(text)
        sentences += found
        labels += [label] * len(found)
    return parts


def _first_record(job: AccuracyJob) -> Record:
    return Record(EXPERIMENT, job.dataset_name, job.model, "accuracy", 0.0, job.seed)


def batch_size_table(records: Sequence[Record]) -> str:
    """Return the table of held-out accuracy and training time over the mini-batch size."""
    rows = []
    for size in sorted({r.model for r in records}, key=int):
        accuracies, seconds = (
            [r.number for r in records if (r.model, r.metric) == (size, metric)]
            for metric in ("accuracy", "seconds")
        )
        spread = f" ± {stdev(accuracies):.4f}" if len(accuracies) > 1 else ""
        rows.append([size, f"{fmean(accuracies):.4f}{spread}", f"{fmean(seconds):.0f} s"])
    return markdown_table(["texts per mini-batch", "held-out accuracy", "training"], rows)
