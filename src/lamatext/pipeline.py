"""The main job: a labelled source → split → trained, scored beside its baselines, saved."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamatext.baselines import Row, check_baselines, measure, row_of
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import stratified_split
from lamatext.errors import DataError
from lamatext.metrics import Scores, score
from lamatext.progress import SILENT, Progress, counted
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import CHECKPOINT, folder_size
from lamatext.settings import Recipe

if TYPE_CHECKING:
    from lamatext.classifier import TextClassifier

TEST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Parts:
    """The three parts of the data; no text to validate on means: hold some of train out."""

    train: Dataset
    valid: Dataset | None
    test: Dataset


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the job came to."""

    folder: Path
    scores: Scores
    leaderboard: list[Row]  # ours first


def split_parts(
    train: Dataset, valid: Dataset | None, test: Dataset | None, recipe: Recipe
) -> Parts:
    """Hold out what was not given: a tenth of all texts to test, as many to validate."""
    if not pc.any(pc.not_equal(pc.utf8_trim_whitespace(train.texts), "")).as_py():
        raise DataError(f"{train.source}: every text is empty. Name another with --text-column.")
    if test is not None:
        return Parts(train, valid, test)
    shares = (1 - TEST_SHARE, TEST_SHARE)
    rows, test_rows = stratified_split(train.require_labels(), shares, recipe.seed)
    if not len(test_rows):
        raise DataError(
            f"{train.source}: {len(train)} texts are too few to hold a tenth out to test. "
            "Give more texts, or texts to test with --test."
        )
    rest, held = train.take(rows), train.take(test_rows)
    if valid is not None:
        return Parts(rest, valid, held)
    share = recipe.training.validation_fraction / (1 - TEST_SHARE)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".* seen once", category=UserWarning
        )  # said above
        rows, valid_rows = stratified_split(rest.require_labels(), (1 - share, share), recipe.seed)
    return Parts(rest.take(rows), rest.take(valid_rows), held)


def run_job(  # noqa: PLR0913 - data, recipe, and where and how it runs
    parts: Parts,
    recipe: Recipe,
    folder: Path,
    progress: Progress,
    *,
    baselines: Sequence[str] = (),
    device: str = "auto",
    resume: bool = False,
) -> Outcome:
    """Train, score on the test part, measure the baselines on the same texts, save."""
    check_baselines(baselines)
    _check_test_labels(parts)
    checkpoint = folder / CHECKPOINT
    if not resume:
        checkpoint.unlink(missing_ok=True)
    started = time.perf_counter()
    classifier = fit_recipe(recipe, parts, progress, checkpoint=checkpoint, device=device)
    seconds = time.perf_counter() - started
    data = describe(parts)
    classifier.save(folder, data=data)
    progress.stage("scoring on the test texts", len(parts.test))
    scores, speed = score_saved(folder, parts.test, progress)
    own = row_of(own_name(recipe), scores, folder_size(folder), speed, seconds)
    board = [own, *(_baseline_row(name, parts, recipe, progress) for name in baselines)]
    metrics = {"test": scores.as_dict(), "leaderboard": [asdict(row) for row in board]}
    classifier.save(folder, metrics=metrics, data=data)
    for path in (checkpoint, *folder.glob(f".{CHECKPOINT}.*")):  # killed runs leave the latter
        path.unlink(missing_ok=True)
    return Outcome(folder, scores, board)


def own_name(recipe: Recipe) -> str:
    """What a leaderboard calls our row: the system; the product where n-grams stand beside it."""
    return "lamatext" if recipe.ngrams.enabled else recipe.model.name


def fit_recipe(
    recipe: Recipe,
    parts: Parts,
    progress: Progress,
    *,
    checkpoint: Path | None = None,
    device: str = "auto",
) -> "TextClassifier":
    """A classifier trained by exactly this recipe."""
    from lamatext.classifier import TextClassifier

    classifier = TextClassifier.of_recipe(recipe, device=device)
    valid = None if parts.valid is None else (parts.valid.texts, parts.valid.labels)
    return classifier.fit(
        parts.train.texts,
        parts.train.labels,
        validation_data=valid,
        checkpoint=checkpoint,
        progress=progress,
    )


def _check_test_labels(parts: Parts) -> None:
    """Every label to test by is one to learn: found out before training, not after."""
    encoder = LabelEncoder.fit(parts.train.require_labels())
    encoder.encode(parts.test.require_labels(), source=parts.test.source)


def score_saved(folder: Path, test: Dataset, progress: Progress = SILENT) -> tuple[Scores, float]:
    """Scores of the model as saved, and the texts it reads in a second."""
    predictor = Predictor.load(folder)
    encoder = LabelEncoder(tuple(predictor.classes.tolist()))
    truth = encoder.encode(test.require_labels(), source=test.source)
    predictor.predict_proba([""])  # opens the engine
    texts = chain.from_iterable(part.to_pylist() for part in _slices(test.texts))
    started = time.perf_counter()
    probabilities = predictor.predict_proba(counted(texts, progress)).astype(np.float64)
    seconds = time.perf_counter() - started
    return score(predictor.classes.tolist(), truth, probabilities), len(test) / seconds


def describe(parts: Parts) -> dict[str, Any]:
    """What the saved model keeps of its data."""
    facts: dict[str, Any] = {
        "source": parts.train.source,
        "training_texts": len(parts.train),
        "test_texts": len(parts.test),
        "text_column": parts.train.text_column,
        "label_column": parts.train.label_column,
    }
    if parts.valid is not None:
        facts["validation_texts"] = len(parts.valid)
    return facts


def _baseline_row(name: str, parts: Parts, recipe: Recipe, progress: Progress) -> Row:
    progress.stage(f"training the baseline {name}")
    if name == "avg":
        return _average_row(parts, recipe, progress)
    train = parts.train
    if parts.valid is not None:  # a baseline without early stopping learns from these texts too
        train = joined(parts.train, parts.valid)
    encoder = LabelEncoder.fit(train.require_labels())
    truth = encoder.encode(parts.test.require_labels(), source=parts.test.source)
    return measure(
        name,
        (train.texts.to_pylist(), encoder.encode(train.require_labels())),
        (parts.test.texts.to_pylist(), truth),
        encoder.classes,
    )


def _average_row(parts: Parts, recipe: Recipe, progress: Progress) -> Row:
    """The mean of the word embeddings with the same classifier, trained the same way."""
    import tempfile

    started = time.perf_counter()
    average = recipe.with_values({"model.name": "avg", "ngrams.enabled": False})
    classifier = fit_recipe(average, parts, progress)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        scores, speed = score_saved(Path(folder), parts.test)
        return row_of("average embedding", scores, folder_size(Path(folder)), speed, seconds)


def joined(first: Dataset, second: Dataset) -> Dataset:
    """Both corpora as one, with the first one's names."""
    if first.labels is None or second.labels is None:
        raise DataError(f"{second.source}: no labels.")
    return Dataset(
        pa.chunked_array([*first.texts.chunks, *second.texts.chunks], pa.large_string()),
        pa.chunked_array([*first.labels.chunks, *second.labels.chunks], pa.string()),
        first.source,
        first.text_column,
        first.label_column,
    )


def _slices(texts: pa.ChunkedArray, size: int = 8192) -> list[pa.ChunkedArray]:
    return [texts.slice(start, size) for start in range(0, len(texts), size)]
