"""Train a text classification model: from texts and labels to network, n-gram model and history."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import TextGroups
from lamatext.data.labels import ClassIndices, Label, LabelEncoder, Targets
from lamatext.data.splits import Split, hold_out_validation, validation_texts_to_leave_out
from lamatext.data.text_encoder import Encoder, TextEncoder
from lamatext.data.token_ids import Indices
from lamatext.data.tokenizer import TokenizedTexts, Tokenizer
from lamatext.data.word_vectors import Vectors
from lamatext.errors import ConfigError, DataError, percent, plural
from lamatext.kernels.numba_compat import compile_cpu_kernels, cpu_kernels_are_compiled
from lamatext.label_thresholds import (
    LabelThresholds,
    ThresholdGoal,
    choose_thresholds,
    warn_of_labels_without_threshold,
)
from lamatext.metrics import mean_present_precision
from lamatext.ngrams.model import NgramModel
from lamatext.outliers import (
    ValidationStatistics,
    collect_statistics,
    known_share,
    text_evidence,
)
from lamatext.probabilities import sigmoid
from lamatext.progress import SILENT, Progress
from lamatext.saved.model_io import SavedModel
from lamatext.saved.quantization import dequantize, quantize
from lamatext.settings import RECURRENT, Recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.calibration import (
    add_network,
    evenly_spread_texts,
    fit_temperature,
    scale_logits,
)
from lamatext.training.checkpoint import EpochRecord
from lamatext.training.cross_fitting import (
    FittedNgrams,
    deduplicate,
    fit_and_calibrate_ngrams,
    seen_classes,
    text_weights,
    words_of,
)
from lamatext.training.distillation import (
    MANY_LABELS,
    TeacherLabels,
    soften_classes,
    soften_labels,
    student_recipe,
)
from lamatext.training.label_calibration import (
    LabelFactors,
    apply_label_factors,
    fit_label_factors,
)
from lamatext.training.loop import LoopSettings, fit, predict_logits, score_name
from lamatext.training.preparation import PreparedRun, prepare_run
from lamatext.training.warm_start import calibration_factor, validate_on_new_texts

MAX_TOTAL_WEIGHT = 1e30  # of all texts, so that sums stay finite in float32
NOTED_TEXTS = 20  # validation texts; the score of fewer says too little to report it


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """Result of training a model (network, text encoder, n-gram model and history)."""

    recipe: Recipe  # every ``auto`` replaced by a value
    network: nn.Module  # on the CPU, in evaluation mode
    encoder: Encoder
    ngrams: NgramModel | None
    history: list[EpochRecord]
    best_epoch: int
    validation_accuracy: float  # mean average precision if a text may have several labels
    is_validated_on_training: bool  # whether no other texts could be held out for validation
    scales: dict[str, float]  # calibration factors, already applied to the logits of each part
    validation: ValidationStatistics | None = None  # reference of outlier scores and drift
    thresholds: NDArray[np.float32] | None = None  # (C,) if a text may have several labels
    label_noise: float = 0.0  # share of wrong labels, which the probabilities include
    architecture: dict[str, object] | None = None  # of a pretrained encoder


def train(  # noqa: PLR0913 - data, recipe, and where and how it runs
    train: Dataset,
    validation: Dataset | None,
    recipe: Recipe,
    *,
    classes: Sequence[Label],
    sample_weight: ArrayLike | None = None,
    teacher_labels: TeacherLabels | None = None,
    start: SavedModel | None = None,
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: Progress = SILENT,
) -> TrainedModel:
    """Train a text classification model on a labelled dataset.

    Args:
        train: texts and labels to train on.
        validation: texts and labels for calibration and early stopping; None holds out
            ``training.validation_fraction`` of the training texts.
        recipe: all settings.
        classes: all labels, in the order of the class indices.
        sample_weight: one weight per training text, in the network's loss and in the n-gram model;
            None weights all texts equally. Early stopping ignores it, and so does calibration with
            several labels per text.
        teacher_labels: a teacher's probabilities, which the network learns instead of the labels,
            and further texts without labels; None learns the labels. The n-gram model learns the
            labels and, if these are few, the class or labels of each unlabelled text that the
            teacher predicts.
        start: a saved model that training continues. Its classes come first in ``classes``; classes
            without new texts keep as much as possible of what the model has learned about them.
        device: ``cpu``, ``cuda``, or ``auto`` for a GPU if there is one.
        checkpoint: file for the state of the run; if it exists, training resumes from it.
        progress: receives the stages of the run.
    """
    options = _RunOptions([str(c) for c in classes], pick_device(device), checkpoint, progress)
    texts, labels, split = _join(train, validation, recipe, classes)
    if start is not None:
        split = validate_on_new_texts(split, texts, start, multi_label=labels.ndim == 2)
    weights = _check_weights(sample_weight, len(train))
    unlabelled = None
    if teacher_labels is not None:
        teacher_labels.check(len(train), len(classes))
        recipe = student_recipe(recipe, teacher_labels, train.texts)
        texts = pa.chunked_array([*texts.chunks, *teacher_labels.more_texts.chunks], texts.type)
        labels = np.concatenate([labels, teacher_labels.predictions(multi_label=labels.ndim == 2)])
        unlabelled = teacher_labels.unlabelled_rows(len(labels))
        if len(split.train) < MANY_LABELS:  # with more, n-grams are better without them
            split = replace(split, train=np.append(split.train, unlabelled))
            unlabelled = None
    if weights is not None:
        weights = np.append(weights, np.ones(len(labels) - len(train), np.float32))
    prepared = prepare_run(
        texts,
        split,
        recipe,
        classes=len(classes),
        multi_label=labels.ndim == 2,
        start=start,
        unlabelled=unlabelled,
        device=str(options.device),
        progress=progress,
    )
    data = EncodedDataset(prepared.token_ids, labels, weights)
    lesson = None if teacher_labels is None else _make_lesson(data, split, teacher_labels, recipe)
    return _train(prepared, data, split, options, lesson)


def _make_lesson(
    data: EncodedDataset, split: Split, teacher_labels: TeacherLabels, recipe: Recipe
) -> EncodedDataset:
    """Return the training data of a student network, with the teacher's probabilities as targets.

    Its texts are the training texts, the unlabelled texts and the variants of both.
    """
    first = len(data) - len(teacher_labels.more_texts)
    labelled = split.train[split.train < first]
    rows = np.append(labelled, np.arange(first, len(data)))
    probabilities = np.concatenate([teacher_labels.labelled[labelled], teacher_labels.more])
    lesson = data.take(rows)
    soften = soften_labels if data.labels.ndim == 2 else soften_classes
    return replace(lesson, labels=soften(probabilities, recipe.distillation.temperature))


def train_tokens(  # noqa: PLR0913 - data, recipe, and where and how it runs
    tokens: TokenizedTexts,
    labels: ClassIndices,
    split: Split,
    recipe: Recipe,
    *,
    classes: Sequence[str],
    word_vectors: Vectors | None = None,
    tokenizer: Tokenizer | None = None,
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: Progress = SILENT,
) -> TrainedModel:
    """Train a text classification model on texts that are already tokenized.

    Args:
        tokens: words of all texts, or subword ids for ``bert``; rows outside the split (test
            texts) are not trained on.
        labels: class index of each row.
        split: rows of the training and validation texts.
        recipe: all settings.
        classes: name of each class.
        word_vectors: initial embedding matrix (V, E); None follows ``text.word_vectors``.
        tokenizer: tokenizer of the trained model's encoder; None follows ``text.tokenizer``.
        device: as for ``train``.
        checkpoint: as for ``train``.
        progress: as for ``train``.
    """
    options = _RunOptions(classes, pick_device(device), checkpoint, progress)
    prepared = prepare_run(
        tokens,
        split,
        recipe,
        classes=len(classes),
        word_vectors=word_vectors,
        tokenizer=tokenizer,
        device=str(options.device),
        progress=progress,
    )
    return _train(prepared, EncodedDataset(prepared.token_ids, labels), split, options)


class _RunOptions(NamedTuple):
    class_names: Sequence[str]
    device: torch.device
    checkpoint: Path | None
    progress: Progress


def _train(
    prepared: PreparedRun,
    data: EncodedDataset,
    split: Split,
    options: _RunOptions,
    lesson: EncodedDataset | None = None,
) -> TrainedModel:
    """Train a prepared model: fit the n-gram model, train the network and calibrate both.

    The n-gram model comes first, so that it is known early whether wrong labels require more fits
    and the time left can be estimated well. The weights are rounded to the values that the saved
    file will hold. If there is a ``lesson``, the network learns its teacher probabilities instead
    of the labels of the training texts.
    """
    recipe, network, progress = prepared.recipe, prepared.network, options.progress
    train, validation = data.take(split.train), data.take(split.validation)
    _check_class_totals(train, options.class_names)
    identity = [data.token_ids.ids, data.token_ids.offsets, data.labels, split.train]
    if data.sample_weight is not None:
        identity.append(data.sample_weight)
    if lesson is not None:
        identity.append(lesson.labels)
    if prepared.start is not None:
        identity += prepared.start.tensors.values()
    settings = LoopSettings(
        recipe.model,
        recipe.training,
        recipe.seed,
        options.device,
        class_weights=class_weights(
            recipe.training.class_weight, train.labels, options.class_names
        ),
        multi_label=data.labels.ndim == 2,
        label_weights=_weights_of_labels(prepared, train.labels),
        temperature=1.0 if lesson is None else recipe.distillation.temperature,
        checkpoint=options.checkpoint,
        run_id=fingerprint(recipe.model_dump_json(), *identity),
    )
    ngrams = fit_and_calibrate_ngrams(prepared, data, split, settings, progress)
    uses_kernel = options.device.type == "cpu" and recipe.model.name in RECURRENT
    if uses_kernel and not cpu_kernels_are_compiled():
        progress.stage("compiling the CPU kernel (once on this machine)")
        compile_cpu_kernels()
    state = fit(network, train if lesson is None else lesson, validation, settings, progress)
    round_as_stored(network, recipe.storage)
    progress.stage("calibrating")
    finish = _finish_multi_label if settings.multi_label else _finish
    finished = finish(_Run(prepared, data, split, settings, progress), ngrams)
    final_ngrams, scales, accuracy, statistics, thresholds, label_noise = finished
    precision = recipe.training.min_precision
    if thresholds is not None and precision is not None:
        warn_of_labels_without_threshold(options.class_names, thresholds, precision)
    network.to("cpu").eval()
    round_as_stored(network, recipe.storage)  # calibration changed the last layer
    return TrainedModel(
        recipe=recipe,
        network=network,
        encoder=prepared.encoder,
        ngrams=final_ngrams,
        history=state.history,
        best_epoch=state.best_epoch,
        validation_accuracy=state.best_accuracy if accuracy is None else accuracy,
        is_validated_on_training=bool(np.isin(split.validation, split.train).all()),
        scales=scales,
        validation=statistics,
        thresholds=thresholds,
        label_noise=label_noise,
        architecture=prepared.architecture,
    )


class _Finished(NamedTuple):
    """Results of the steps after network training, such as calibration and label thresholds."""

    ngrams: NgramModel | None
    scales: dict[str, float]  # calibration factors
    score: float | None  # of both parts together; None without an n-gram model
    statistics: ValidationStatistics
    thresholds: NDArray[np.float32] | None = None
    label_noise: float = 0.0


class _Run(NamedTuple):
    """State of a training run after its network is trained: the input of the final calibration."""

    prepared: PreparedRun
    data: EncodedDataset
    split: Split
    settings: LoopSettings
    progress: Progress


def _finish(run: _Run, fitted: FittedNgrams | None) -> _Finished:
    """Calibrate a trained network, together with the n-gram model if there is one."""
    prepared, data, split, settings, progress = run
    logits = predict_logits(prepared.network, data.take(split.validation), settings.device)
    weights = text_weights(data, settings)
    seen, columns = seen_classes(prepared, data.labels, split)
    if fitted is None:
        labels = columns[split.validation]
        scale = 1 / fit_temperature(logits[:, seen], labels, weights[split.validation])
        scale_logits(prepared.network, scale)
        statistics = _validation_statistics(prepared, split.validation, scale * logits)
        return _Finished(None, {"network": scale}, None, statistics)
    ngrams, held_out, combination = fitted
    accuracy, rows, base = None, split.validation, ngrams.base
    unseen = np.setdiff1d(split.validation, split.train)  # none if there were too few to hold out
    both, at, _ = np.intersect1d(held_out.rows, unseen, return_indices=True)
    if len(both):
        rows, base, ngram_logits = both, held_out.base, held_out.logits[at]
        logits = logits[np.intersect1d(split.validation, both, return_indices=True)[1]]
        parts = ngram_logits[:, seen], logits[:, seen]
        spread = evenly_spread_texts(columns[split.train], len(seen))
        selected, own = deduplicate(columns[both], held_out.duplicates_of(at), weights[both])
        combination = add_network(
            combination,
            parts[0][selected],
            parts[1][selected],
            columns[both][selected],
            own,
            training_texts=spread,
        )
        decided = combination.logits(*parts).argmax(axis=1)
        accuracy = float((decided == columns[both]).mean())
        _note_together(progress, "accuracy", accuracy, len(both))
    else:
        ngram_logits = ngrams.logits(words_of(prepared, rows))
    a, b, bias, noise = combination.for_all_classes(seen, prepared.classes)
    statistics = _validation_statistics(
        prepared, rows, b * logits, a * ngram_logits + bias, a * base + bias
    )
    scale_logits(prepared.network, b)
    model, scales = ngrams.scaled(a, bias), {"ngrams": a, "network": b}
    return _Finished(model, scales, accuracy, statistics, label_noise=noise)


def _finish_multi_label(run: _Run, fitted: FittedNgrams | None) -> _Finished:
    """Calibrate a trained multi-label model per label and choose the label thresholds."""
    prepared, data, split, settings, progress = run
    targets = data.labels[split.validation]
    logits = predict_logits(prepared.network, data.take(split.validation), settings.device)
    ngram_logits, base = np.zeros_like(logits), np.zeros(logits.shape[1], np.float32)
    if fitted is not None:
        ngram_logits, base = fitted.held_out.logits, fitted.held_out.base
    by_label = settings.class_weights
    label_weights = None if by_label is None else by_label.cpu().numpy().astype(np.float64)
    training_texts = _class_totals(data.labels[split.train], prepared.classes)
    seen = np.ones(prepared.classes, bool) if prepared.start is None else training_texts > 0
    factors = fit_label_factors(
        ngram_logits[:, seen],
        logits[:, seen],
        targets[:, seen],
        training_texts=training_texts[seen],
        label_weights=None if label_weights is None else label_weights[seen],
    )
    factors = _old_factors_of_unseen_labels(factors, seen, prepared)
    a, b = factors.ngrams, factors.network
    calibrated = b * logits + factors.shifts
    statistics = (
        _validation_statistics(prepared, split.validation, calibrated)
        if fitted is None
        else _validation_statistics(
            prepared, split.validation, calibrated, a * ngram_logits, a * base
        )
    )
    combined = factors.combine(ngram_logits, logits)
    apply_label_factors(prepared.network, factors)
    ngrams = None if fitted is None else fitted.model.scaled(a)
    probabilities = sigmoid(combined)
    thresholds = choose_thresholds(
        probabilities,
        targets > 0.5,
        _threshold_goal(prepared.recipe),
        labelled_texts=training_texts + _class_totals(targets, prepared.classes),
        label_weights=label_weights,
        without_evidence=_logits_of_empty_text(prepared, ngrams, settings.device),
    )
    thresholds = _thresholds_of_unseen_labels(thresholds, training_texts, prepared)
    decided = LabelThresholds(thresholds).decide(probabilities)
    statistics = replace(statistics, labels=tuple(decided.sum(axis=0).tolist()))
    score = mean_present_precision(targets > 0.5, combined)
    if ngrams is None:
        return _Finished(None, {"network": float(b.mean())}, score, statistics, thresholds)
    _note_together(progress, score_name(True), score, len(targets))
    scales = {"ngrams": float(a.mean()), "network": float(b.mean())}
    return _Finished(ngrams, scales, score, statistics, thresholds)


def _logits_of_empty_text(
    prepared: PreparedRun, ngrams: NgramModel | None, device: torch.device
) -> NDArray[np.float32]:
    """Return the logits (C,) of the trained network and n-gram model for an empty text."""
    labels = np.zeros((1, prepared.classes), np.float32)
    empty = EncodedDataset(prepared.encoder.encode([""]), labels)
    logits = predict_logits(prepared.network, empty, device)[0]
    return np.asarray(logits if ngrams is None else logits + ngrams.base, np.float32)


def _old_factors_of_unseen_labels(
    factors: LabelFactors, seen: NDArray[np.bool_], prepared: PreparedRun
) -> LabelFactors:
    """Keep the calibration of labels without new texts when training continues a model."""
    if prepared.start is None:
        return factors
    old = [calibration_factor(prepared.start, part) for part in ("ngrams", "network")]
    return factors.for_all_labels(seen, *old)


def _thresholds_of_unseen_labels(
    thresholds: NDArray[np.float32], training_texts: NDArray[np.float64], prepared: PreparedRun
) -> NDArray[np.float32]:
    """Set the thresholds of labels without training texts to the continued model's, or to 1."""
    old = np.ones(len(thresholds), np.float32)
    if prepared.start is not None and prepared.start.thresholds is not None:
        old[: len(prepared.start.labels)] = prepared.start.thresholds.values
    return np.where(training_texts > 0, thresholds, old)


def _threshold_goal(recipe: Recipe) -> ThresholdGoal:
    return ThresholdGoal(recipe.training.metric, recipe.training.min_precision)


def _note_together(progress: Progress, name: str, score: float, texts: int) -> None:
    """Report the joint validation score of network and n-gram model if there are enough texts."""
    if texts >= NOTED_TEXTS:
        progress.note(
            f"network and n-grams together: validation {name} {percent(score)} on "
            f"{plural(texts, 'text')}"
        )


def _validation_statistics(
    prepared: PreparedRun,
    rows: Indices,
    network: NDArray[np.float32],
    ngrams: NDArray[Any] | None = None,
    base: NDArray[Any] | None = None,
) -> ValidationStatistics:
    """Collect statistics of the validation texts after training, for outlier scores.

    The logits must come from models that were not trained on the validation texts.
    """
    words = unknown = np.zeros(len(network), np.int64)
    known = np.ones(len(network), np.float32)
    if isinstance(prepared.encoder, TextEncoder) and prepared.tokens is not None:
        texts = words_of(prepared, rows)
        words = np.fromiter(map(len, texts), np.int64, len(texts))
        unknown = words - prepared.encoder.count_known(texts)
        known = known_share(words, unknown)
    labels = (network if ngrams is None else network + ngrams).argmax(axis=1)
    return collect_statistics(
        text_evidence(network, ngrams, base, known),
        words,
        unknown,
        np.bincount(labels, minlength=network.shape[1]).tolist(),
    )


def _join(
    train: Dataset, validation: Dataset | None, recipe: Recipe, classes: Sequence[Label]
) -> tuple[pa.ChunkedArray, Targets, Split]:
    """Join the training and validation set into one array of texts, with targets and a split."""
    encoder = LabelEncoder(tuple(classes))
    labels = encoder.encode_targets(train.require_labels(), place=train.place)
    if validation is train:  # a teacher's few texts: none were held out, as a warning has said
        rows, groups = np.arange(len(labels)), TextGroups(train.texts, train.group_values)
        return train.texts, labels, Split(rows, rows, groups=groups)
    if validation is not None:
        validation = _without_training_texts(validation, train)
    if validation is None:
        fraction = recipe.training.validation_fraction
        groups = TextGroups(train.texts, train.group_values)
        split = hold_out_validation(train.require_labels(), fraction, recipe.seed, groups)
        return train.texts, labels, split
    both = train.concatenate(validation)
    more = encoder.encode_targets(validation.require_labels(), place=validation.place)
    _warn_about_single_class(more, encoder, validation.source)
    rows, middle = np.arange(len(labels) + len(more)), len(labels)
    groups = TextGroups(both.texts, both.group_values)
    split = Split(rows[:middle], rows[middle:], groups=groups)
    return both.texts, np.concatenate([labels, more]), split


def _without_training_texts(validation: Dataset, train: Dataset) -> Dataset | None:
    """Leave out the validation texts that are also training texts, if these are many, and warn.

    Return None if none are left.
    """
    is_known = validation_texts_to_leave_out(validation.texts, train.texts)
    if not is_known.any():
        return validation
    rows, texts = np.flatnonzero(~is_known), plural(len(validation), "validation text")
    if len(rows):
        message = (
            f"{is_known.sum():,} of {texts} are also training texts and are not used for validation"
        )
    else:
        message = (
            f"all {texts} are also training texts, so some training texts are held out instead"
        )
    warnings.warn(f"{validation.source}: {message}.", stacklevel=2)
    return validation.take(rows) if len(rows) else None


def _warn_about_single_class(labels: Targets, encoder: LabelEncoder, source: str) -> None:
    """Warn before training if all validation texts have the same label."""
    if labels.ndim == 1 and len(np.unique(labels)) == 1:
        warnings.warn(
            f"{source}: {plural(len(labels), 'text')}, all with the label "
            f"{encoder.names[labels[0]]!r}, so they do not show how well the model tells it from "
            "other labels. Use validation texts of other labels, too.",
            stacklevel=2,
        )


def _weights_of_labels(prepared: PreparedRun, targets: Targets) -> Tensor | None:
    """Return loss weights (L,) that ignore labels without texts when training continues a model.

    What the model knows about such a label is kept, because the new texts may not have been checked
    for it. Return None to weight all labels equally.
    """
    if prepared.start is None or targets.ndim == 1:
        return None
    return torch.from_numpy((targets > 0.5).any(axis=0).astype(np.float32))


def _check_weights(sample_weight: ArrayLike | None, texts: int) -> NDArray[np.float32] | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float32)
    if weights.shape != (texts,):
        raise DataError(
            f"sample_weight has the shape {weights.shape}, expected ({texts},): one per text."
        )
    unusable = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(unusable):
        row = unusable[0]
        raise DataError(
            f"sample_weight[{row}] is {weights[row]:g}, expected a finite number of at least 0."
        )
    if weights.sum(dtype=np.float64) > MAX_TOTAL_WEIGHT:
        raise DataError(
            f"the sample weights add up to {weights.sum(dtype=np.float64):.3g}, expected at most "
            f"{MAX_TOTAL_WEIGHT:.0g}. Divide all of them by the same number."
        )
    weights = _scaled_up(weights, weights[weights > 0])
    return None if (weights == 1).all() else weights


def _scaled_up(weights: NDArray[np.float32], by_text: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale weights whose mean over the texts is below 1 to a mean of 1.

    The n-gram model is regularized against the total weight, so with small weights, such as some
    that sum to 1, it would learn nothing.
    """
    mean = by_text.mean(dtype=np.float64) if len(by_text) else 1.0
    return weights if mean >= 1 else (weights / mean).astype(np.float32)


def _check_class_totals(train: EncodedDataset, class_names: Sequence[str]) -> None:
    if train.sample_weight is None:
        return
    totals = _class_totals(train.labels, len(class_names), train.sample_weight)
    weightless = (totals == 0) & (_class_totals(train.labels, len(class_names)) > 0)
    if weightless.any():
        name = class_names[int(weightless.argmax())]
        raise DataError(
            f"every training text of the class {name!r} has the weight 0. "
            "Give one of them a positive sample_weight, or leave the class out."
        )


def _class_totals(
    labels: NDArray[Any], classes: int, sample_weight: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    weights = np.ones(len(labels)) if sample_weight is None else sample_weight
    if labels.ndim == 2:
        return np.asarray(weights @ (labels > 0.5), np.float64)
    return np.bincount(labels, weights, classes).astype(np.float64)


def round_as_stored(network: nn.Module, storage: str) -> None:
    """Round the weights of a trained network to the precision of the saved file."""
    if storage == "float32":
        return
    tensors = {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}
    rounded = dequantize(quantize(tensors, storage))  # type: ignore[arg-type]
    network.load_state_dict({name: torch.from_numpy(value) for name, value in rounded.items()})


def pick_device(name: str) -> torch.device:
    """Choose the device to train on; ``auto`` means a GPU if there is one, otherwise the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"unknown device {name!r}. Use auto, cpu or cuda.") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not supported. Use auto, cpu or cuda.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        advice = "" if count else ", or install a PyTorch build with GPU support"
        raise ConfigError(
            f"device {name!r}: PyTorch finds {plural(count, 'GPU')} on this machine. "
            f"Use auto or cpu{advice}."
        )
    return device


def class_weights(
    setting: str | Mapping[str, float] | None, labels: Targets, classes: Sequence[str]
) -> Tensor | None:
    """Return the weight of each class in the training loss, or None if no weights are set.

    The shape is (C,); ``balanced`` gives all classes the same total weight or, if a text may have
    several labels, the texts with a label the same total weight as those without it.
    """
    if setting is None:
        return None
    if isinstance(setting, str):
        counts = _class_totals(labels, len(classes))
        if labels.ndim == 2:
            ratio = (len(labels) - counts) / np.maximum(counts, 1)
            return torch.tensor(np.maximum(ratio, 1 / len(labels)), dtype=torch.float32)
        balanced = len(labels) / (len(classes) * np.maximum(counts, 1))
        return torch.tensor(balanced, dtype=torch.float32)
    unknown = [name for name in setting if name not in classes]
    if unknown:
        raise ConfigError(
            f"class_weight names the class {unknown[0]!r}, which is not among the labels: "
            f"{', '.join(classes[:20])}."
        )
    weights = np.array([setting.get(name, 1.0) for name in classes], np.float32)
    if labels.ndim == 1:
        weights = _scaled_up(weights, weights[labels])
    return torch.from_numpy(weights)
