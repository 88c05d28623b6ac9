"""``python -m benchmarks score-intervals``: how often does the 95 % interval of a score hold?

Small samples of a data set are scored as ``lamatext train`` scores them: by cross-validation, or on
a tenth that is held out. The interval of the accuracy (micro-F1 if a text may have several labels)
holds if it covers the score of the final model on at least 10,000 further texts (on reuters, which
has 10,789, on all others). Labels that the sample lacks are mistakes there. To make thousands of
trainings affordable, a ridge classifier on TF-IDF vectors stands for the network; the vectors are
computed once for all texts.
"""

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from benchmarks.accuracy_jobs import RECORDS, Folder, Force, split_names
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import Rows, folds, hold_out
from lamatext.errors import DataError, require
from lamatext.metrics import accuracy_interval, micro_f1_interval
from lamatext.pipeline import FOLDS, MIN_TEST_TEXTS, TEST_FRACTION
from lamatext.progress import Progress
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "score_intervals"
DATASETS = "imdb,news,clinc150,goemotions,reuters"
SIZES = "100,400,1000,1900,2500"  # texts of a sample
LABEL_SCORE = -0.1  # of the ridge classifier from which one of several labels is predicted
SPLITS = 200
FURTHER, MIN_FURTHER = 12_000, 8_000  # texts that are not in the sample
RIDGE = 0.3
MODEL = "TF-IDF + ridge"

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """TF-IDF vectors of all texts of a data set as a sparse matrix, and their labels."""

    features: Any  # (n, V)
    targets: Floats  # (n, C) 1 for the labels of a text and -1 for the others
    labels: pa.Array  # one label or a list of labels per text

    @property
    def is_multi_label(self) -> bool:
        """Return whether a text may have several labels."""
        return bool(pa.types.is_list(self.labels.type))

    def label_means(self, rows: Rows) -> Floats:
        """Return the intercepts (C,): a text without known words has none of several labels."""
        means: Floats = self.targets[rows].mean(axis=0) * self.is_multi_label
        return means

    def hits_and_sizes(self, rows: Rows, scores: Floats) -> tuple[Rows, Rows]:
        """Return the number of correct labels of each text, and of its true and predicted ones."""
        predicted = scores >= LABEL_SCORE
        if not self.is_multi_label:
            predicted = np.eye(scores.shape[1], dtype=bool)[scores.argmax(axis=1)]
        true = self.targets[rows] > 0
        return (true & predicted).sum(axis=1), true.sum(axis=1) + predicted.sum(axis=1)

    def interval(self, hits: Rows, sizes: Rows, folds: int) -> tuple[float, float]:
        """Return the 95 % interval that ``lamatext train`` gives for the main score."""
        if self.is_multi_label:
            return micro_f1_interval(hits, sizes, folds)
        return accuracy_interval(float(hits.mean()), len(hits), folds)


def vectorize(name: str) -> Vectors:
    """Compute the TF-IDF vectors of all texts of a named data set."""
    text = require("sklearn.feature_extraction.text", extra="train", purpose="TF-IDF")
    parts = [load_paper_dataset(name), load_paper_dataset(name, "test")]
    texts = [t for part in parts for t in part.texts.to_pylist()]
    labels = pa.concat_arrays([c for part in parts for c in part.require_labels().chunks])
    features = text.TfidfVectorizer(sublinear_tf=True, min_df=3, dtype=np.float32)
    targets = LabelEncoder.fit(labels).encode_targets(labels)
    if targets.ndim == 1:
        targets = np.eye(int(targets.max()) + 1, dtype=np.float32)[targets.astype(np.int64)]
    signs = 2 * targets.astype(np.float32) - 1
    return Vectors(features.fit_transform(texts), signs, labels)


class SampleScore(NamedTuple):
    """Score of a sample of texts with its 95 % interval, and that of the model on further texts."""

    score: float
    interval: tuple[float, float]
    texts: int
    folds: int
    further: float


def score_sample(vectors: Vectors, size: int, seed: int) -> SampleScore:
    """Score a random sample of texts as ``lamatext train`` does, and the model on further texts."""
    rows = np.random.default_rng(seed).permutation(len(vectors.labels))
    sample, further = rows[:size], rows[size : size + FURTHER]
    if len(further) < MIN_FURTHER:
        raise DataError(f"{len(further):,} further texts, expected at least {MIN_FURTHER:,}.")
    features, targets = vectors.features[sample], vectors.targets[sample]
    kernel = np.asarray((features @ features.T).todense())
    labels = vectors.labels.take(pa.array(sample))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label that occurs once
        if round(size * TEST_FRACTION) < MIN_TEST_TEXTS:
            parts, final = _all_folds(labels, seed), np.arange(size)
        else:
            parts = [hold_out(labels, TEST_FRACTION, seed)]
            final = parts[0][0]
    means = vectors.label_means(sample[final])
    scores = [
        _predict(kernel, targets, *part, vectors.label_means(sample[part[0]])) for part in parts
    ]
    tested = sample[np.concatenate([test for _, test in parts])]
    hits, sizes = vectors.hits_and_sizes(tested, np.concatenate(scores))
    weights = features[final].T @ _fit(kernel, targets - means, final)  # (V, C)
    new_scores = vectors.features[further] @ weights + means
    new_hits, new_sizes = vectors.hits_and_sizes(further, new_scores)
    used = len(parts) if len(parts) > 1 else 0
    return SampleScore(
        score=float(2 * hits.sum() / sizes.sum()),
        interval=vectors.interval(hits, sizes, used),
        texts=len(hits),
        folds=used,
        further=float(2 * new_hits.sum() / new_sizes.sum()),
    )


def _all_folds(labels: pa.Array, seed: int) -> list[tuple[Rows, Rows]]:
    """Return the folds of ``lamatext train``: training and test rows."""
    return list(folds(labels, FOLDS, seed, score_single=True))


def _fit(kernel: Floats, targets: Floats, rows: Rows) -> Floats:
    """Fit a ridge classifier in its dual form: weights of the training texts (rows, C)."""
    ridge = RIDGE * np.eye(len(rows), dtype=np.float32)
    weights: Floats = np.linalg.solve(kernel[np.ix_(rows, rows)] + ridge, targets[rows])
    return weights


def _predict(kernel: Floats, targets: Floats, train: Rows, test: Rows, means: Floats) -> Floats:
    scores: Floats = kernel[np.ix_(test, train)] @ _fit(kernel, targets - means, train) + means
    return scores


def measure(vectors: Vectors, size: int, splits: int, progress: Progress) -> dict[str, float]:
    """Measure how often the interval of the score holds, over random samples of one size."""
    holds, widths, differences = [], [], []
    for seed in range(splits):
        sample = score_sample(vectors, size, seed)
        low, high = sample.interval
        holds.append(low <= sample.further <= high)
        widths.append(high - low)
        differences.append(sample.score - sample.further)
        progress.advance()
    return {
        "coverage": float(np.mean(holds)),
        "width": float(np.mean(widths)),
        "accuracy_minus_further": float(np.mean(differences)),
        "folds": float(sample.folds),
    }


def run(
    datasets: Annotated[str, typer.Option(help="Names, separated by commas.")] = DATASETS,
    sizes: Annotated[str, typer.Option(help="Texts per sample, separated by commas.")] = SIZES,
    splits: Annotated[int, typer.Option(min=2, help="Random samples of each size.")] = SPLITS,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Measure how often the 95 % interval of a score covers the score on further texts."""
    from lamatext.cli import output

    known = Records(records, force=force)
    for name in split_names(datasets):
        vectors: Vectors | None = None
        for size in map(int, split_names(sizes)):
            config = {"texts": size, "splits": splits}
            first = Record(EXPERIMENT, name, MODEL, "coverage", 0.0, config=config)
            if known.has(first.key):
                continue
            vectors = vectors or vectorize(name)
            with output.progress(quiet=False) as progress:
                progress.stage(f"{name}, {size:,} texts", splits)
                values = measure(vectors, size, splits, progress)
                progress.note(
                    f"{name}, {size:,} texts: the interval holds in {values['coverage']:.1%}"
                )
            known.add(
                Record(
                    EXPERIMENT, name, MODEL, metric, value, device="cpu", config=config
                ).with_provenance()
                for metric, value in values.items()
            )
