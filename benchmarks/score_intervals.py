"""``python -m benchmarks score-intervals``: how often does the 95 % interval of a score hold?

Small samples of a data set are scored as ``lamatext train`` scores them: by cross-validation, or on
a tenth that is held out. The interval of the accuracy holds if it covers the accuracy of the final
model on at least 10,000 further texts. To make thousands of trainings affordable, a ridge
classifier on TF-IDF vectors stands for the network; the vectors are computed once for all texts.
"""

import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.accuracy_jobs import RECORDS, Folder, Force, split_names
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import Rows, folds, hold_out
from lamatext.errors import DataError, require
from lamatext.metrics import accuracy_interval
from lamatext.pipeline import FOLDS, MIN_TEST_TEXTS, TEST_FRACTION
from lamatext.progress import Progress
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "score_intervals"
DATASETS = "imdb,news"
SIZES = "100,400,1000,1900,2500"  # texts of a sample
SPLITS = 200
FURTHER = 12_000  # texts that are not in the sample
RIDGE = 0.3
MODEL = "TF-IDF + ridge"

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """TF-IDF vectors of all texts of a data set as a sparse matrix, and their class indices."""

    features: Any  # (n, V)
    classes: NDArray[np.int64]

    @property
    def targets(self) -> Floats:
        """Return 1 for the class of each text and -1 for the others (n, C)."""
        return 2 * np.eye(self.classes.max() + 1, dtype=np.float32)[self.classes] - 1


def vectorize(name: str) -> Vectors:
    """Compute the TF-IDF vectors of all texts of a named data set."""
    text = require("sklearn.feature_extraction.text", extra="train", purpose="TF-IDF")
    parts = [load_paper_dataset(name), load_paper_dataset(name, "test")]
    texts = [t for part in parts for t in part.texts.to_pylist()]
    labels = [label for part in parts for label in part.require_labels().to_pylist()]
    features = text.TfidfVectorizer(sublinear_tf=True, min_df=3, dtype=np.float32)
    return Vectors(features.fit_transform(texts), LabelEncoder.fit(labels).encode(labels))


def score_sample(vectors: Vectors, size: int, seed: int) -> tuple[float, int, int, float]:
    """Score a random sample of texts as ``lamatext train`` does, and the model on further texts.

    Returns:
        The accuracy in the sample, on how many texts and folds, and that on the further texts.
    """
    rows = np.random.default_rng(seed).permutation(len(vectors.classes))
    sample, further = rows[:size], rows[size : size + FURTHER]
    if len(further) < 10_000:
        raise DataError(f"{len(further):,} further texts, expected at least 10,000.")
    features, targets = vectors.features[sample], vectors.targets[sample]
    kernel = np.asarray((features @ features.T).todense())
    labels = vectors.classes[sample].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label that occurs once
        if round(size * TEST_FRACTION) < MIN_TEST_TEXTS:
            parts, final = list(folds(labels, FOLDS, seed)), np.arange(size)
        else:
            parts = [hold_out(labels, TEST_FRACTION, seed)]
            final = parts[0][0]
    hits = [_is_correct(kernel, targets, *part) for part in parts]
    weights = features[final].T @ _fit(kernel, targets, final)  # (V, C)
    predicted = (vectors.features[further] @ weights).argmax(axis=1)
    correct = np.concatenate(hits)
    accuracy = float((predicted == vectors.classes[further]).mean())
    return float(correct.mean()), len(correct), len(parts) if len(parts) > 1 else 0, accuracy


def _fit(kernel: Floats, targets: Floats, rows: Rows) -> Floats:
    """Fit a ridge classifier in its dual form: weights of the training texts (rows, C)."""
    ridge = RIDGE * np.eye(len(rows), dtype=np.float32)
    weights: Floats = np.linalg.solve(kernel[np.ix_(rows, rows)] + ridge, targets[rows])
    return weights


def _is_correct(kernel: Floats, targets: Floats, train: Rows, test: Rows) -> NDArray[np.bool_]:
    scores = kernel[np.ix_(test, train)] @ _fit(kernel, targets, train)
    correct: NDArray[np.bool_] = scores.argmax(axis=1) == targets[test].argmax(axis=1)
    return correct


def measure(vectors: Vectors, size: int, splits: int, progress: Progress) -> dict[str, float]:
    """Measure how often the interval of the accuracy holds, over random samples of one size."""
    holds, widths, differences = [], [], []
    for seed in range(splits):
        accuracy, texts, used, further = score_sample(vectors, size, seed)
        low, high = accuracy_interval(accuracy, texts, used)
        holds.append(low <= further <= high)
        widths.append(high - low)
        differences.append(accuracy - further)
        progress.advance()
    return {
        "coverage": float(np.mean(holds)),
        "width": float(np.mean(widths)),
        "accuracy_minus_further": float(np.mean(differences)),
        "folds": float(used),
    }


def run(
    datasets: Annotated[str, typer.Option(help="Names, separated by commas.")] = DATASETS,
    sizes: Annotated[str, typer.Option(help="Texts per sample, separated by commas.")] = SIZES,
    splits: Annotated[int, typer.Option(min=2, help="Random samples of each size.")] = SPLITS,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Measure how often the 95 % interval of the accuracy covers that on further texts."""
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
