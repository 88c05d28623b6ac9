"""Teachers: larger models, or files of probabilities, from which a small model learns.

A teacher gives every text one probability per class; they sum to 1 unless a text may have several
labels. The small model, the student, learns these probabilities on the labelled texts, on
unlabelled texts and on variants of both; see ``training/distillation.py``.

teach               label all texts with a teacher, within the time that the settings allow
FittedTeacher       any fitted classifier as a teacher
EncoderTeacher      a pretrained encoder, fine-tuned on the labelled texts, once or several times
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray

from lamatext.data.cache import Arrays, cached, fingerprint
from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import TextGroups
from lamatext.data.labels import LabelEncoder, Targets
from lamatext.data.probability_file import ProbabilityTable
from lamatext.data.splits import hold_out_validation
from lamatext.data.text_encoder import Encoder, SubwordEncoder
from lamatext.data.text_variants import make_text_variants
from lamatext.data.token_ids import TokenIds
from lamatext.errors import ConfigError, DataError, plural
from lamatext.metrics import mean_present_precision
from lamatext.nn.pretrained import MINILM, PretrainedNetwork, encoder_batches, load_pretrained
from lamatext.probabilities import sigmoid, softmax
from lamatext.progress import SILENT, Progress
from lamatext.recipes import load_recipe
from lamatext.saved.format import CONFIG, TEACHER_CHECKPOINTS
from lamatext.settings import Recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.distillation import (
    MANY_LABELS,
    Probabilities,
    TeacherLabels,
    soften_classes,
)
from lamatext.training.loop import predict_logits
from lamatext.training.trainer import pick_device, train

CHUNK = 2_048  # texts that a teacher labels between two steps of the progress bar
MAX_VARIANTS = 48  # per text
VARIANT_WORDS = 5_000_000  # in all variants and, with many labels, unlabelled texts together
MANY_LABELS_VARIANTS = 2  # per text with many labels, however many words these have
BACKWARD_COST = 3.5  # ratio of the time of a training step to that of a forward pass
MIN_STEPS = 200  # training steps that a teacher needs on few texts
MAX_EPOCHS = 40
MULTI_LABEL_STEPS = 2_000  # with several labels, of which some are rare, it needs more steps
MULTI_LABEL_RATE = 1e-4  # and a higher learning rate; chosen on validation texts
FEW_LABELS_PER_CLASS = 100  # with fewer, a fine-tuned teacher is averaged with a linear layer
HIGH_RATE = 1e-4  # learning rate of a single epoch, and of encoders that are averaged
MIN_VARIANTS = 12  # per text, if wanted, before a second epoch of fine-tuning; then as many as fit
LENGTHS = (512, 256, 128)  # subwords that an encoder may read of a text
LONG_TEXT_LABELS = 10_000  # labels from which it learns to read 512, more than it was trained on
AVERAGED_TEACHERS = 3  # encoders that are averaged with many labels, but fewer than that
INVERSE_REGULARIZATION = (3.0, 10.0, 30.0, 100.0)  # values of C to choose from
CROSS_VALIDATED_TEXTS = 2_000  # at most, to choose it
SEED_STEP = 1_000_003  # between the seeds of encoders that are averaged
SAMPLE = 64  # texts from which the speed of an encoder is measured
LICENCES = {MINILM: "Apache-2.0"}


@dataclass(frozen=True, slots=True)
class Lesson:
    """Output of a teacher: probabilities for training the student, and facts for the model card.

    Training the student on these probabilities is called distillation.
    """

    labels: TeacherLabels
    facts: dict[str, Any]


class TeacherData(NamedTuple):
    """Labelled data for training a teacher, and unlabelled texts for the teacher to label."""

    train: Dataset
    validation: Dataset
    unlabelled: Sequence[str]
    classes: Sequence[Any]
    rows: NDArray[np.int64]  # of the training set within the texts that were passed to ``fit``

    @property
    def targets(self) -> Targets:
        """Class indices (n,) or 0/1 label matrix (n, C) of the teacher's training texts."""
        return self._encode(self.train)

    def score(self, probabilities: Probabilities) -> float:
        """Score a teacher's probabilities for the validation texts.

        As for the student, the score is the accuracy or, if a text may have several labels, the
        mean average precision.
        """
        truth = self._encode(self.validation)
        if truth.ndim == 2:
            return mean_present_precision(truth > 0.5, probabilities)
        return float((probabilities.argmax(axis=1) == truth).mean())

    def _encode(self, part: Dataset) -> Targets:
        return LabelEncoder(tuple(self.classes)).encode_targets(part.require_labels())

    def weights_of_training_rows(self, sample_weight: ArrayLike | None) -> ArrayLike | None:
        """Return the sample weights of the texts that teacher and student train on."""
        return None if sample_weight is None else np.asarray(sample_weight)[self.rows]


def teacher_data(
    train: Dataset,
    validation: Dataset | None,
    unlabelled: Sequence[str],
    classes: Sequence[Any],
    recipe: Recipe,
) -> TeacherData:
    """Collect the data for a teacher and its student; hold out a validation set if none is given.

    Neither the teacher nor the student is trained on the validation set, unless there are too few
    texts to hold any out: it is then the training set itself, the same object.
    """
    rows = np.arange(len(train))
    if validation is None:
        fraction = recipe.training.validation_fraction
        groups = TextGroups(train.texts, train.group_values)
        split = hold_out_validation(train.require_labels(), fraction, recipe.seed, groups)
        rows, whole = split.train, train
        train = validation = whole.take(rows)
        if split.validation is not rows:
            validation = whole.take(split.validation)
    return TeacherData(train, validation, unlabelled, classes, rows)


def has_few_labels(data: TeacherData) -> bool:
    """Return whether the teacher has too few labels per class for fine-tuning alone."""
    if data.train.is_multi_label:
        return False
    return len(data.train) < FEW_LABELS_PER_CLASS * len(data.classes)


def is_encoder_name(teacher: object) -> bool:
    """Return whether ``teacher`` names a pretrained encoder, which must be trained before use.

    Everything else is a file, the folder of a saved model, or a Python object.
    """
    if not isinstance(teacher, str | PathLike):
        return False
    path = Path(teacher)
    if (path / CONFIG).is_file():  # a saved model or a Hugging Face encoder
        return b'"model_type"' in (path / CONFIG).read_bytes().partition(b'"recipe"')[0]
    return not path.is_file()


def teach(
    teacher: object,
    data: TeacherData,
    recipe: Recipe,
    *,
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: Progress = SILENT,
) -> Lesson:
    """Let a teacher label the training texts, the unlabelled texts and variants of both.

    Args:
        teacher: ``minilm``, the name or folder of a Hugging Face encoder, a ProbabilityTable, a
            FittedTeacher, or a fitted classifier with ``predict_proba`` and ``classes_``.
        data: the texts, labels and classes.
        recipe: the student's settings; ``distillation`` has the teacher's.
        device: where an encoder is trained and run.
        checkpoint: a file for the state of the encoder's training, from which it can resume.
        progress: receives the stages.
    """
    texts = [*data.train.texts.to_pylist(), *data.unlabelled]
    if is_encoder_name(teacher):
        encoder = EncoderTeacher(str(teacher), data, recipe, device, checkpoint)
        return encoder.teach(texts, progress)
    if isinstance(teacher, ProbabilityTable):  # only of these texts, not of variants
        facts = {"name": teacher.source, "variants": 0, "validation_accuracy": None}
        return Lesson(_teacher_labels(teacher.look_up(texts), texts, data), facts)
    opened = _open_teacher(teacher, data.classes, multi_label=data.train.is_multi_label)
    variants = recipe.distillation.variants
    per_text = _wanted_variants(data) if variants == "auto" else variants
    everything = [*texts, *make_text_variants(_varied(data), per_text, recipe.seed)]
    probabilities = opened.predict_proba(everything, progress)
    accuracy = data.score(opened.predict_proba(data.validation.texts.to_pylist()))
    facts = {"name": opened.name, "variants": per_text, "validation_accuracy": accuracy}
    return Lesson(_teacher_labels(probabilities, everything, data), facts)


def _teacher_labels(
    probabilities: Probabilities, texts: Sequence[str], data: TeacherData
) -> TeacherLabels:
    labelled = len(data.train)
    more = pa.chunked_array([pa.array(texts[labelled:], pa.large_string())])
    return TeacherLabels(
        probabilities[:labelled], more, probabilities[labelled:], len(data.unlabelled)
    )


def _varied(data: TeacherData) -> list[str]:
    """Return the texts of which altered variants are made for the teacher to label.

    These are all texts or, if many are labelled, only the labelled ones.
    """
    labelled: list[str] = data.train.texts.to_pylist()
    return labelled if len(labelled) >= MANY_LABELS else [*labelled, *data.unlabelled]


def _wanted_variants(data: TeacherData) -> int:
    """Return how many altered variants of each text the teacher should label.

    If there are many labelled texts, the unlabelled texts take the place of some variants.
    """
    varied = _varied(data)
    words = max(1, _count_words(varied))
    if len(data.train) < MANY_LABELS:
        return min(MAX_VARIANTS, VARIANT_WORDS // words)
    wanted = (VARIANT_WORDS - _count_words(data.unlabelled)) // words
    return min(MAX_VARIANTS, max(MANY_LABELS_VARIANTS, wanted))


def wanted_teachers(data: TeacherData) -> int:
    """Return how many fine-tuned encoders a teacher should average if the time allows.

    With some thousand labels, many mistakes of an encoder depend on its seed, so the average of
    several encoders makes fewer; with tens of thousands, a second encoder improves nothing.
    """
    averages = MANY_LABELS <= len(data.train) < LONG_TEXT_LABELS
    return AVERAGED_TEACHERS if averages and not data.train.is_multi_label else 1


def _count_words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


# Fitted classifiers


def _open_teacher(teacher: object, classes: Sequence[Any], *, multi_label: bool) -> "FittedTeacher":
    """Wrap a fitted classifier as a teacher; raise ConfigError for any other object."""
    if isinstance(teacher, FittedTeacher):
        return teacher
    if hasattr(teacher, "predict_proba") and hasattr(teacher, "classes_"):
        known = list(teacher.classes_)
        if multi_label and _is_fitted_to_indicators(known, len(classes)):
            known = list(classes)
        return FittedTeacher(type(teacher).__name__, teacher, known, classes)
    raise ConfigError(
        f"teacher = {teacher!r}: expected minilm, the name or folder of a Hugging Face encoder, a "
        "saved model's folder, a file of probabilities, or a classifier with predict_proba."
    )


def _is_fitted_to_indicators(known: Sequence[Any], labels: int) -> bool:
    """Return whether a teacher was fitted on an indicator matrix without label names.

    Scikit-learn's classifiers then have the classes 0, 1, … or, for each column, an array of 0 and
    1. The columns are in the order of the labels, as ``MultiLabelBinarizer`` sorts them.
    """
    if len(known) != labels:
        return False
    return all(np.ndim(c) == 1 or str(c) == str(i) for i, c in enumerate(known))


class FittedTeacher:
    """Teacher that wraps a fitted classifier with ``predict_proba`` and ``classes_``."""

    def __init__(
        self, name: str, classifier: Any, known: Sequence[Any], classes: Sequence[Any]
    ) -> None:
        self.name, self._classifier = name, classifier
        columns = {str(label): column for column, label in enumerate(known)}
        wanted = [str(label) for label in classes]
        different = set(wanted) ^ set(columns)
        if different:
            raise DataError(
                f"{name}: the teacher's classes ({', '.join(columns)}) are not those of the data "
                f"({', '.join(wanted)}); {min(different)!r} is in only one of them. "
                "Train the teacher on the same labels."
            )
        self._columns = [columns[label] for label in wanted]

    def predict_proba(self, texts: Sequence[str], progress: Progress = SILENT) -> Probabilities:
        """Predict the class probabilities of each text with the teacher's classifier."""
        progress.stage(f"labelling {plural(len(texts), 'text')} with {self.name}", len(texts))
        parts = []
        for start in range(0, len(texts), CHUNK):
            chunk = list(texts[start : start + CHUNK])
            probabilities = self._classifier.predict_proba(chunk)
            parts.append(_one_column_per_class(probabilities, self._classifier.classes_))
            progress.advance(len(chunk))
        return np.concatenate(parts)[:, self._columns]


def _one_column_per_class(probabilities: Any, classes: Any) -> Probabilities:
    """Convert the output of a teacher's ``predict_proba`` to an array (n, C).

    Some classifiers of scikit-learn return a list with one array per label: the probabilities of 0
    and 1, or of only one of them if the teacher was trained on no text with the other.
    """
    if isinstance(probabilities, list):
        ones = [
            label[:, outcomes.tolist().index(1)] if 1 in outcomes else np.zeros(len(label))
            for label, outcomes in zip(probabilities, classes, strict=True)
        ]
        return np.stack(ones, axis=1).astype(np.float32)
    return np.asarray(probabilities, np.float32)


# Pretrained encoders, which are trained first


class TeachingPlan(NamedTuple):
    """Plan for training an encoder as a teacher within a time limit."""

    epochs: int  # 0: the encoder keeps its weights, and only a linear layer is fitted
    max_words: int  # subwords of a text that it reads
    variants: int  # per text
    teachers: int  # encoders that are fine-tuned from different seeds and averaged
    seconds: float  # how long all of it takes, estimated from the measured speed


@dataclass
class EncoderTeacher:
    """Teacher that fine-tunes a pretrained encoder on the labelled texts."""

    name: str
    data: TeacherData
    recipe: Recipe  # of the student
    device: str
    checkpoint: Path | None = None

    def teach(self, texts: Sequence[str], progress: Progress) -> Lesson:
        """Train the teacher's encoder and label all texts and their variants with it.

        The probabilities are cached under a fingerprint of everything that they depend on. Those of
        each fine-tuned encoder are cached as soon as the encoder has labelled the texts.
        """
        plan = self.plan(texts, progress)
        progress.note(_describe(self.name, plan))
        variants = make_text_variants(_varied(self.data), plan.variants, self.recipe.seed)
        everything = [*texts, *variants]

        validation = self.data.validation.texts.to_pylist()

        def label(number: int) -> Arrays:
            if number > 0:
                progress.note(f"teacher {number + 1} of {plan.teachers}")
                self._forget_checkpoint(number - 1)
            trained = self.train(plan, progress, number)
            return {
                "probabilities": trained.predict_proba(everything, progress),
                "validation": trained.predict_proba(validation),
            }

        labelled = [
            cached("teacher", self._key(texts, *plan[:3], number), partial(label, number))
            for number in range(plan.teachers)
        ]
        probabilities, of_validation = (
            average(
                [arrays[name].astype(np.float32) for arrays in labelled],
                multi_label=self.data.train.is_multi_label,
            )
            for name in ("probabilities", "validation")
        )
        accuracy = self.data.score(of_validation)
        facts = {
            "name": self.name,
            "licence": LICENCES.get(self.name),
            "epochs": plan.epochs,
            "variants": plan.variants,
            "teachers": plan.teachers,
            "validation_accuracy": accuracy,
        }
        return Lesson(_teacher_labels(probabilities, everything, self.data), facts)

    def _key(self, texts: Sequence[str], *more: object) -> str:
        labels, held_out = (
            [str(label) for label in part.require_labels().to_pylist()]
            for part in (self.data.train, self.data.validation)
        )
        validation = self.data.validation.texts.to_pylist()
        parts = list(texts), labels, validation, held_out, [str(c) for c in self.data.classes]
        return fingerprint("5", self.name, self.recipe.seed, *parts, *more)

    def plan(self, texts: Sequence[str], progress: Progress = SILENT) -> TeachingPlan:
        """Choose how to train the teacher's encoder, based on its measured speed."""

        def measure() -> Arrays:
            progress.stage(f"measuring the speed of {self.name}")
            return {"speed": np.array([self._texts_per_second(texts, n) for n in LENGTHS])}

        settings = self.recipe.distillation
        speed = cached("teacher-speed", self._key(texts, self.device, LENGTHS), measure)["speed"]
        wanted = _wanted_variants(self.data) if settings.variants == "auto" else settings.variants
        several = wanted_teachers(self.data) if settings.teachers == "auto" else settings.teachers
        return plan_teaching(
            speed.tolist(),
            labelled=len(self.data.train),
            texts=len(texts),
            variants=wanted,
            teachers=several,
            seconds=60 * settings.teacher_minutes,
            multi_label=self.data.train.is_multi_label,
        )

    def _texts_per_second(self, texts: Sequence[str], max_words: int) -> float:
        loaded = load_pretrained(self.name, classes=len(self.data.classes), setting="teacher")
        encoder = SubwordEncoder.from_json(loaded.tokenizer, min(max_words, loaded.max_words))
        step = max(1, len(texts) // SAMPLE)
        sample = encoder.encode(islice(texts, 0, SAMPLE * step, step))
        device = pick_device(self.device)
        data = EncodedDataset(sample, np.zeros(len(sample), np.int64))
        network = loaded.network.to(device)
        predict_logits(network, data.take(np.arange(min(8, len(data)))), device)  # warm up
        started = time.perf_counter()
        predict_logits(network, data, device)
        return len(sample) / (time.perf_counter() - started)

    def train(
        self, plan: TeachingPlan, progress: Progress = SILENT, number: int = 0
    ) -> "TrainedEncoder":
        """Train one of the teacher's encoders on the labelled texts according to the plan.

        With few labels per class, a fine-tuned encoder forgets some of what it knew, so its
        predictions are then averaged with those of a linear layer on the unchanged encoder.
        """
        networks = []
        if plan.epochs > 0:
            networks.append(self._fine_tune(plan, progress, number))
        if plan.epochs == 0 or has_few_labels(self.data):
            networks.append(self._fit_linear_layer(plan, progress))
        multi_label = self.data.train.is_multi_label
        return TrainedEncoder(
            self.name, networks, pick_device(self.device), multi_label=multi_label
        )

    def _checkpoint(self, number: int) -> Path | None:
        if self.checkpoint is None:
            return None
        return self.checkpoint.with_name(TEACHER_CHECKPOINTS[number])

    def _forget_checkpoint(self, number: int) -> None:
        """Delete the checkpoint of one of the teacher's encoders.

        It is no longer needed once the probabilities that this encoder predicts are cached.
        """
        if (checkpoint := self._checkpoint(number)) is not None:
            checkpoint.unlink(missing_ok=True)

    def _fine_tune(
        self, plan: TeachingPlan, progress: Progress, number: int
    ) -> tuple[PretrainedNetwork, Encoder]:
        """Fine-tune the teacher's encoder and a new linear layer on the labelled texts."""
        values = fine_tuning_settings(plan, self.data)
        seed = (self.recipe.seed + SEED_STEP * number) % 2**63
        values |= {"model.pretrained": self.name, "seed": seed}
        trained = train(
            self.data.train,
            self.data.validation,
            load_recipe("teacher").with_values(values),
            classes=self.data.classes,
            device=self.device,
            checkpoint=self._checkpoint(number),
            progress=progress,
        )
        assert isinstance(trained.network, PretrainedNetwork)
        return trained.network, trained.encoder

    def _fit_linear_layer(
        self, plan: TeachingPlan, progress: Progress
    ) -> tuple[PretrainedNetwork, Encoder]:
        """Train only the teacher's linear layer, by logistic regression on text embeddings."""
        loaded = load_pretrained(self.name, classes=len(self.data.classes), setting="teacher")
        encoder = SubwordEncoder.from_json(loaded.tokenizer, min(plan.max_words, loaded.max_words))
        network, device = loaded.network, pick_device(self.device)
        rows = encoder.encode(self.data.train.texts.to_pylist())
        embeddings = _embed(network.to(device), rows, device, progress)
        weights, bias = fit_linear_classifier(embeddings, self.data.targets)
        last = network.classifier[1]
        assert isinstance(last, torch.nn.Linear)
        with torch.no_grad():
            last.weight.copy_(torch.from_numpy(weights))
            last.bias.copy_(torch.from_numpy(bias))
        return network, encoder


def fine_tuning_settings(plan: TeachingPlan, data: TeacherData) -> dict[str, object]:
    """Choose text length, epochs, batch size and learning rate for fine-tuning a teacher.

    A single epoch at a high learning rate works as well as three epochs. Encoders that are averaged
    may also have a high learning rate, because the average makes up for what each of them forgets.
    """
    values: dict[str, object] = {
        "text.max_words": plan.max_words,
        "training.epochs": plan.epochs,
        "training.batch_size": 32 if len(data.train) >= 1_000 else 16,
    }
    if data.train.is_multi_label:
        values["training.learning_rate"] = MULTI_LABEL_RATE
    elif plan.epochs == 1 or wanted_teachers(data) > 1:
        values["training.learning_rate"] = HIGH_RATE
    return values


def fit_linear_classifier(
    embeddings: NDArray[np.float32], targets: Targets
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a logistic regression (one per label if multi-label) on a teacher's embeddings.

    Returns:
        The weights (C, D) and the biases (C,).
    """
    from sklearn.linear_model import LogisticRegression

    if targets.ndim == 1:
        norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
        directions, norm = embeddings / norms, float(norms.mean())
        strength = _choose_inverse_regularization(directions, targets.astype(np.int64))
        model = LogisticRegression(C=strength, max_iter=1_000).fit(directions, targets)
        weights, bias = model.coef_ / norm, model.intercept_
        if len(weights) == 1:  # one row for the difference of the two logits
            weights, bias = np.concatenate([-weights, weights]) / 2, np.append(-bias, bias) / 2
        return weights, bias
    scale = float(embeddings.std())
    scaled = embeddings / scale
    weights, counts = np.zeros((targets.shape[1], embeddings.shape[1])), targets.sum(axis=0)
    bias = np.log((counts + 0.5) / (len(targets) - counts + 0.5)).astype(np.float64)
    for label in np.flatnonzero((counts > 0) & (counts < len(targets))):
        model = LogisticRegression(C=1.0, max_iter=1_000).fit(scaled, targets[:, label])
        weights[label], bias[label] = model.coef_[0] / scale, model.intercept_[0]
    return weights, bias


def _choose_inverse_regularization(
    embeddings: NDArray[np.float32], targets: NDArray[np.int64]
) -> float:
    """Choose C of the teacher's logistic regression by 5-fold cross-validation."""
    from sklearn.linear_model import LogisticRegression

    rows = np.argsort(targets, kind="stable")  # each fold has its share of every class
    rows = rows[:: -(-len(rows) // CROSS_VALIDATED_TEXTS)]
    _, counts = np.unique(targets[rows], return_counts=True)
    if len(counts) < 2 or counts.min() < 2:
        return INVERSE_REGULARIZATION[1]
    fold = np.arange(len(rows)) % 5
    right = dict.fromkeys(INVERSE_REGULARIZATION, 0)
    for strength in right:
        for number in range(min(5, len(rows))):
            fitted, held_out = rows[fold != number], rows[fold == number]
            model = LogisticRegression(C=strength, max_iter=1_000)
            model.fit(embeddings[fitted], targets[fitted])
            right[strength] += int((model.predict(embeddings[held_out]) == targets[held_out]).sum())
    return max(right, key=lambda strength: right[strength])


def average(parts: Sequence[Probabilities], *, multi_label: bool = False) -> Probabilities:
    """Average the probabilities of several teachers by their normalized geometric mean.

    If a text may have several labels, each label is averaged on its own, over its two outcomes.
    """
    if len(parts) == 1:
        return parts[0]
    logits = np.mean([np.log(np.maximum(part, 1e-6)) for part in parts], axis=0)
    if multi_label:
        others = np.mean([np.log(np.maximum(1 - part, 1e-6)) for part in parts], axis=0)
        return np.asarray(1 / (1 + np.exp(others - logits)), np.float32)
    return soften_classes(np.exp(logits), 1.0)


class TrainedEncoder:
    """Teacher that predicts with one trained network, or with the average of several."""

    def __init__(
        self,
        name: str,
        networks: Sequence[tuple[PretrainedNetwork, Encoder]],
        device: torch.device,
        *,
        multi_label: bool = False,
    ) -> None:
        self.name, self._networks = name, [(net.to(device), encoder) for net, encoder in networks]
        self._device, self._multi_label = device, multi_label

    def predict_proba(self, texts: Sequence[str], progress: Progress = SILENT) -> Probabilities:
        """Predict the class probabilities of each text with the trained teacher."""
        return average([self._predict(*network, texts, progress) for network in self._networks])

    def _predict(
        self,
        network: PretrainedNetwork,
        encoder: Encoder,
        texts: Sequence[str],
        progress: Progress,
    ) -> Probabilities:
        progress.stage(f"labelling {plural(len(texts), 'text')} with {self.name}", len(texts))
        parts: list[Probabilities] = []
        for start in range(0, len(texts), CHUNK):
            rows = encoder.encode(texts[start : start + CHUNK])
            data = EncodedDataset(rows, np.zeros(len(rows), np.int64))
            logits = predict_logits(network, data, self._device)
            parts.append(sigmoid(logits) if self._multi_label else softmax(logits))
            progress.advance(len(rows))
        return np.concatenate(parts)


def plan_teaching(  # noqa: PLR0913 - speed, sizes, wishes and the time limit of one plan
    texts_per_second: Sequence[float],
    *,
    labelled: int,
    texts: int,
    variants: int,
    teachers: int,
    seconds: float,
    multi_label: bool = False,
) -> TeachingPlan:
    """Choose the best plan for training an encoder as a teacher within the time limit.

    The first of these choices that fits into the time limit is taken: fine-tuning on up to 512
    subwords per text (only with enough labels), on up to 256, on up to 128, fine-tuning for fewer
    epochs, and finally only a linear layer on the unchanged encoder. The remaining time is used for
    variants and then, if wanted, for more encoders with other seeds: encoders make partly different
    mistakes, so the average of several labels the texts better.

    Args:
        texts_per_second: measured speed of the encoder for each of ``LENGTHS``.
        labelled: number of labelled texts, on which the teacher is trained.
        texts: number of all texts that it labels, without variants.
        variants: the wanted number of variants per text; with many labels, per labelled text.
        teachers: the wanted number of encoders to average.
        seconds: the time for all of it.
        multi_label: whether a text may have several labels.
    """
    steps = -(-labelled // (32 if labelled >= 1_000 else 16))
    least, wanted = (4, MULTI_LABEL_STEPS) if multi_label else (3, MIN_STEPS)
    epochs = min(MAX_EPOCHS, max(least, -(-wanted // steps)))
    choices = [(epochs, *length) for length in zip(LENGTHS, texts_per_second, strict=True)]
    choices = choices[0 if labelled >= LONG_TEXT_LABELS else 1 :]
    _, shortest, fastest = choices[-1]
    varied = labelled if labelled >= MANY_LABELS else texts
    choices += [(passes, shortest, fastest) for passes in (2, 1, 0) if passes < epochs]
    for passes, max_words, speed in choices:
        training = labelled * (BACKWARD_COST * passes if passes else 1) / speed
        left = seconds - training - texts / speed
        affordable = max(0, int(left * speed / max(1, varied)))
        enough = min(variants, MIN_VARIANTS if passes > 1 else 1)
        if (left >= 0 and affordable >= enough) or passes == 0:
            chosen = min(variants, affordable)
            total = training + (texts + varied * chosen) / speed
            affordable = max(1, int(seconds / total)) if passes == epochs else 1
            several = min(teachers, affordable)
            return TeachingPlan(passes, max_words, chosen, several, several * total)
    raise AssertionError("the last choice is always taken")


def _describe(name: str, plan: TeachingPlan) -> str:
    how = (
        f"{plural(plan.epochs, 'epoch')} of fine-tuning"
        if plan.epochs
        else "a linear layer on its embeddings"
    )
    how += f", {plan.teachers} times" if plan.teachers > 1 else ""
    count = plan.variants
    variants = f", {plural(count, 'variant')} per text" if count else ""
    minutes = plan.seconds / 60
    estimate = f"{minutes:.0f} minutes" if minutes >= 1.5 else f"{plan.seconds:.0f} seconds"
    return f"teacher {name}: {how}{variants}; about {estimate} on this machine"


def _embed(
    network: PretrainedNetwork, rows: TokenIds, device: torch.device, progress: Progress
) -> NDArray[np.float32]:
    network.eval()
    batches = encoder_batches(rows.lengths, device)
    progress.stage("reading the texts with the teacher", len(batches))
    parts = []
    with torch.inference_mode():
        for batch in batches:
            ids, lengths = rows.pad(batch)
            output = network(torch.from_numpy(ids).to(device), torch.from_numpy(lengths))
            parts.append(output.embedding[:, 0].float().cpu().numpy())
            progress.advance()
    order = np.argsort(np.concatenate(batches))
    embeddings: NDArray[np.float32] = np.concatenate(parts)[order]
    return embeddings
