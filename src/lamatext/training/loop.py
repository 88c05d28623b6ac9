"""The training loop: epochs of mini-batch steps, validation, early stopping, checkpoints.

Shapes: n texts, B texts in a mini-batch, T tokens, C classes.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from lamatext.data.token_ids import Indices, batches_by_length
from lamatext.errors import ModelError
from lamatext.metrics import mean_present_precision
from lamatext.nn.losses import disagreement
from lamatext.nn.network import Output
from lamatext.nn.pretrained import PretrainedNetwork, encoder_batches
from lamatext.progress import SILENT, Progress
from lamatext.settings import ModelSettings, TrainingSettings
from lamatext.training.batching import Batch, EncodedDataset, make_batch, shuffled_batches
from lamatext.training.checkpoint import (
    EpochRecord,
    TrainingState,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from lamatext.training.cpu_threads import training_threads
from lamatext.training.cuda_graphs import CudaGraphSteps, supports_cuda_graphs
from lamatext.training.flat_parameters import WeightUpdates, weight_updates
from lamatext.training.lazy_embedding import DenseUpdates, embedding_updates
from lamatext.training.optimizers import make_optimizer, one_cycle_factor
from lamatext.training.process_group import ONE_PROCESS, OneProcess, current_processes

PREDICTION_TOKENS = 16_384  # tokens, padding included, in a mini-batch without gradients
TINY = torch.finfo(torch.float32).tiny

TrainingStep = Callable[[Batch, float], Tensor]  # mini-batch, learning rate → loss


class LoopSettings(NamedTuple):
    """Settings of a training loop: model, optimization, seed, device, weights and checkpoint."""

    model: ModelSettings
    training: TrainingSettings
    seed: int
    device: torch.device
    class_weights: Tensor | None = None  # (C,)
    multi_label: bool = False  # one sigmoid per label instead of a softmax over the classes
    label_weights: Tensor | None = None  # (L,) of each sigmoid's loss; None weights all equally
    temperature: float = (
        1.0  # of the logits in the loss, when a teacher's probabilities are learned
    )
    checkpoint: Path | None = None
    run_id: str = ""  # fingerprint of data and settings; a checkpoint of another run is refused


def fit(
    network: nn.Module,
    train: EncodedDataset,
    validation: EncodedDataset,
    settings: LoopSettings,
    progress: Progress = SILENT,
) -> TrainingState:
    """Run the training loop until early stopping and load the best weights into the network.

    The random numbers of an epoch depend on (seed, epoch) only, so a loop that resumes from a
    checkpoint ends with the same weights, bit for bit, as a loop that was never interrupted.
    """
    job = LoopJob(network, train, validation, settings, _load_state(settings))
    with current_processes().job(job):
        return run_job(job, progress)


class LoopJob(NamedTuple):
    """Inputs of a training loop as one object that can be sent to other training processes."""

    network: nn.Module
    train: EncodedDataset
    validation: EncodedDataset
    settings: LoopSettings
    state: TrainingState  # to start from

    def on(self, device: torch.device) -> "LoopJob":
        """Copy this training loop job for a worker process on ``device``, without a checkpoint."""
        return self._replace(settings=self.settings._replace(device=device, checkpoint=None))


def run_job(job: LoopJob, progress: Progress = SILENT) -> TrainingState:
    """Run a training loop, or this process's share of a distributed one."""
    network, settings = job.network.to(job.settings.device), job.settings
    if settings.class_weights is not None:
        settings = settings._replace(class_weights=settings.class_weights.to(settings.device))
    if settings.label_weights is not None:
        settings = settings._replace(label_weights=settings.label_weights.to(settings.device))
    with training_threads(network):
        return _run_epochs(job._replace(settings=settings), progress)


def _run_epochs(job: LoopJob, progress: Progress) -> TrainingState:
    network, train, validation, settings, state = job
    training = settings.training
    optimizer = make_optimizer(network, training)
    if state.weights:
        network.load_state_dict(state.weights)
        restore_optimizer(optimizer, state.optimizer)
    else:
        _save_state(state, network, optimizer, settings)
    embeddings = embedding_updates(network, optimizer, training)
    weights = weight_updates(network, optimizer, embeddings)
    step = make_training_step(network, optimizer, settings, weights)
    progress.expect("epoch", int(training.epochs) - state.epoch)
    while state.epoch < int(training.epochs) and not _is_out_of_patience(state, training):
        started = time.perf_counter()
        network.train()
        loss, rate = _train_epoch(step, embeddings, train, state, settings, progress)
        state.epoch += 1
        accuracy = current_processes().from_main(validation_score(network, validation, settings))
        if accuracy > state.best_accuracy or training.keep_weights == "last":
            state.best_accuracy, state.best_epoch = accuracy, state.epoch
            state.best_weights = _copy(network.state_dict())
        if training.schedule == "plateau" and _is_plateau(state, training):
            state.learning_rate /= 2
        seconds, words = time.perf_counter() - started, len(train.token_ids.ids)
        state.history.append(EpochRecord(state.epoch, loss, accuracy, rate, seconds, words))
        weights.export_state()
        _save_state(state, network, optimizer, settings)
        progress.note(
            f"epoch {state.epoch}/{training.epochs}  loss {loss:.3f}  "
            f"validation {score_name(settings.multi_label)} {100 * accuracy:.1f} %  {seconds:.1f} s"
        )
    weights.release()
    network.load_state_dict(state.best_weights)
    return state


def _train_epoch(
    step: TrainingStep,
    embeddings: DenseUpdates,
    train: EncodedDataset,
    state: TrainingState,
    settings: LoopSettings,
    progress: Progress,
) -> tuple[float, float]:
    """Run one epoch of the training loop; return the mean loss and the last learning rate."""
    training, epoch, weights = settings.training, state.epoch + 1, train.sample_weight
    processes = current_processes()
    # Each process draws different dropout masks.
    torch.manual_seed((settings.seed * 100_003 + epoch + (processes.rank << 40)) % 2**63)
    batches = shuffled_batches(
        train.token_ids.lengths,
        batch_size=int(training.batch_size),
        seed=settings.seed,
        epoch=epoch,
    )
    progress.stage(f"epoch {epoch}/{training.epochs}", len(batches))
    total = torch.zeros((), device=settings.device)
    rates = _learning_rates(state, training, len(batches))
    with embeddings.epoch(rates):
        for rate, rows in zip(rates, batches, strict=True):
            batch = make_batch(train, rows, settings.device, embeddings.load_rows)
            batch_weight = len(rows) if weights is None else float(weights[rows].sum())
            total += step(batch, rate).detach() * batch_weight
            embeddings.step()
            progress.advance()
    loss = float(processes.sum(total)) / (len(train) if weights is None else float(weights.sum()))
    if not math.isfinite(loss):
        raise ModelError(
            f"training diverged in epoch {epoch}: the loss is {loss}. Lower training.learning_rate "
            f"({training.learning_rate:g}) or set training.gradient_clip, for example to 1."
        )
    return loss, rates[-1]


def make_training_step(
    network: nn.Module,
    optimizer: Optimizer,
    settings: LoopSettings,
    weights: WeightUpdates | None = None,
) -> TrainingStep:
    """Create the function that runs one mini-batch step of the training loop.

    On an NVIDIA GPU, the step runs as a CUDA graph if the network supports it. If ``weights`` is
    None, the optimizer updates each weight tensor separately.
    """
    weights = WeightUpdates(network, optimizer) if weights is None else weights
    update_weights = partial(_update_weights, network, weights, settings)
    if current_processes() is ONE_PROCESS and supports_cuda_graphs(network, settings.device):
        return CudaGraphSteps(update_weights, optimizer, settings.device)

    def step(batch: Batch, rate: float) -> Tensor:
        weights.set_learning_rate(rate)
        return update_weights(batch)

    return step


def _update_weights(
    network: nn.Module, weights: WeightUpdates, settings: LoopSettings, batch: Batch
) -> Tensor:
    """Run one step of the training loop: forward pass, backward pass and weight update."""
    processes = current_processes()
    weights.zero_grad()
    fractions = None
    if processes.size > 1:
        batch, fractions = _share_of_batch(processes, batch, settings)
    output: Output = network(batch.ids, batch.lengths)
    loss = training_loss(output, batch.labels, settings, batch.sample_weight, fractions)
    weights.backward(loss)
    weights.step(settings.training.gradient_clip)
    return loss


class _LossFractions(NamedTuple):
    """Factors that scale the loss of one training process to its share of the mini-batch's loss."""

    loss: Tensor | float
    disagreement: Tensor | float


def _share_of_batch(
    processes: OneProcess, batch: Batch, settings: LoopSettings
) -> tuple[Batch, _LossFractions]:
    """Return this process's share of a mini-batch and the factors that scale its training loss.

    The scaled losses of all processes add up to the loss of the whole mini-batch.
    """
    if settings.class_weights is not None and batch.sample_weight is None:
        # The weights of a process's classes may all be 0, which only the weighted mean can handle.
        batch = batch._replace(sample_weight=torch.ones(len(batch.ids), device=batch.ids.device))
    share = processes.share(batch)
    has_rows = processes.rank < len(batch.ids)
    if batch.sample_weight is None:
        fraction = has_rows * len(share.ids) / len(batch.ids)
        return share, _LossFractions(fraction, fraction)
    parts, whole = (_loss_weights(each, settings) for each in (share, batch))
    fractions = [has_rows * a / b.clamp_min(TINY) for a, b in zip(parts, whole, strict=True)]
    return share, _LossFractions(*fractions)


def _loss_weights(batch: Batch, settings: LoopSettings) -> tuple[Tensor, Tensor]:
    """Return the total weights by which the two terms of the training loss are divided.

    The mini-batch must have sample weights.
    """
    labels, weights, by_class = batch.labels, batch.sample_weight, settings.class_weights
    assert weights is not None
    texts = torch.tensor(float(len(batch.ids)), device=batch.ids.device)
    if settings.multi_label:
        return weights.sum(), texts
    if labels.ndim == 2:
        return (weights if by_class is None else weights * (labels @ by_class)).sum(), texts
    return (weights if by_class is None else weights * by_class[labels]).sum(), weights.sum()


def training_loss(
    output: Output,
    labels: Tensor,
    settings: LoopSettings,
    sample_weight: Tensor | None = None,
    fractions: _LossFractions | None = None,
) -> Tensor:
    """Compute the loss of the training loop: cross-entropy minus weighted head disagreement.

    The loss is J = L − λ D, where L is the mean cross-entropy and D the mean disagreement of the
    attention heads. With sample weights, both are weighted means over the mini-batch, so a text of
    weight 0 has no effect. The labels are class indices (B,), or a teacher's probabilities
    (B, C) at the temperature τ; then L is τ² times the cross-entropy of softmax(logits / τ). If a
    text may have several labels, they are 0 or 1, or a teacher's probability, for each label (B,
    C), and L is τ² times the sum of one binary cross-entropy per label, of sigmoid(logits / τ).
    If the mini-batch is one process's share of a larger one, L and D are multiplied by
    ``fractions``.
    """
    class_weights, differences = settings.class_weights, disagreement(settings.model, output)
    if settings.multi_label:
        loss = _multi_label_loss(output.logits, labels, settings, sample_weight)
        mean_difference = None if differences is None else differences.mean()
    elif labels.ndim == 2:
        loss = _distillation_loss(output.logits, labels, settings, sample_weight)
        mean_difference = None if differences is None else differences.mean()
    elif sample_weight is None:
        loss = F.cross_entropy(output.logits, labels, weight=class_weights)
        mean_difference = None if differences is None else differences.mean()
    else:
        each = F.cross_entropy(
            output.logits, labels, weight=class_weights, reduction="none"
        )  # (B,)
        total = sample_weight if class_weights is None else sample_weight * class_weights[labels]
        loss = (sample_weight * each).sum() / total.sum().clamp_min(TINY)
        mean_difference = (
            None
            if differences is None
            else (sample_weight * differences).sum() / sample_weight.sum().clamp_min(TINY)
        )
    if fractions is not None:
        loss = fractions.loss * loss
        if mean_difference is not None:
            mean_difference = fractions.disagreement * mean_difference
    if mean_difference is None:
        return loss
    return loss - settings.model.disagreement_weight * mean_difference


def _distillation_loss(
    logits: Tensor, targets: Tensor, settings: LoopSettings, sample_weight: Tensor | None
) -> Tensor:
    """Compute the training loop's distillation loss: cross-entropy with teacher probabilities.

    The targets are the teacher's probabilities at the temperature of the loss, (B, C).
    """
    temperature = settings.temperature
    each = F.cross_entropy(logits / temperature, targets, reduction="none")  # (B,)
    weight = torch.ones_like(each) if sample_weight is None else sample_weight
    if settings.class_weights is not None:
        weight = weight * (targets @ settings.class_weights)
    return temperature**2 * (weight * each).sum() / weight.sum().clamp_min(TINY)


def _multi_label_loss(
    logits: Tensor, targets: Tensor, settings: LoopSettings, sample_weight: Tensor | None
) -> Tensor:
    """Compute the training loop's multi-label loss: binary cross-entropy summed over the labels.

    The class weight of a label applies to the texts that have the label. Targets from a teacher are
    probabilities at the temperature of the loss.
    """
    temperature = settings.temperature
    each = F.binary_cross_entropy_with_logits(
        logits / temperature,
        targets,
        weight=settings.label_weights,
        pos_weight=settings.class_weights,
        reduction="none",
    ).sum(dim=1)  # (B,)
    each = temperature**2 * each
    if sample_weight is None:
        return each.mean()
    return (sample_weight * each).sum() / sample_weight.sum().clamp_min(TINY)


def validation_score(network: nn.Module, dataset: EncodedDataset, settings: LoopSettings) -> float:
    """Compute the validation score after an epoch of the training loop.

    The score is the accuracy or, if a text may have several labels, the mean average precision.
    """
    processes = current_processes()
    if 1 < processes.size <= len(dataset):
        share = dataset.take(processes.share_of_rows(len(dataset)))
        logits = processes.gather_rows(predict_logits(network, share, settings.device))
    else:
        logits = predict_logits(network, dataset, settings.device)
    if settings.multi_label:
        return mean_present_precision(dataset.labels > 0.5, logits)
    return float((logits.argmax(axis=1) == dataset.labels).mean())


def score_name(multi_label: bool) -> str:
    """Return the name of the validation score that the training loop reports."""
    return "mean average precision" if multi_label else "accuracy"


def predict_logits(
    network: nn.Module, dataset: EncodedDataset, device: torch.device
) -> NDArray[np.float32]:
    """Compute logits (n, C) without gradients, for example to validate in the training loop."""
    network.eval()
    order: list[Indices] = []
    logits: list[Tensor] = []
    with training_threads(network), torch.inference_mode():
        for rows in _prediction_batches(network, dataset.token_ids.lengths, device):
            batch = make_batch(dataset, rows, device)
            logits.append(network(batch.ids, batch.lengths).logits.float())
            order.append(rows)
    in_batch_order: NDArray[np.float32] = torch.cat(logits).cpu().numpy()
    return in_batch_order[np.argsort(np.concatenate(order))]


def _prediction_batches(
    network: nn.Module, lengths: Indices, device: torch.device
) -> list[Indices]:
    if isinstance(network, PretrainedNetwork):
        return encoder_batches(lengths, device)
    return batches_by_length(lengths, max_words=PREDICTION_TOKENS)


def _learning_rates(state: TrainingState, training: TrainingSettings, batches: int) -> list[float]:
    """Return the learning rate of each step in the next epoch of the training loop."""
    if training.schedule != "one-cycle":
        return [state.learning_rate] * batches
    steps = int(training.epochs) * batches
    completed = (state.epoch * batches + np.arange(batches)) / steps
    return [training.learning_rate * one_cycle_factor(part) for part in completed.tolist()]


def _is_plateau(state: TrainingState, training: TrainingSettings) -> bool:
    """Return whether the training loop should halve the learning rate after this epoch."""
    stalled = state.epoch - state.best_epoch  # epochs without a new best validation accuracy
    return stalled > 0 and stalled % training.plateau_epochs == 0


def _is_out_of_patience(state: TrainingState, training: TrainingSettings) -> bool:
    return training.keep_weights == "best" and state.epoch - state.best_epoch >= training.patience


def _load_state(settings: LoopSettings) -> TrainingState:
    if settings.checkpoint is None or not settings.checkpoint.is_file():
        return TrainingState(settings.run_id, learning_rate=settings.training.learning_rate)
    return load_checkpoint(settings.checkpoint, settings.run_id)


def _save_state(
    state: TrainingState, network: nn.Module, optimizer: Optimizer, settings: LoopSettings
) -> None:
    if settings.checkpoint is None:
        return
    state.weights = network.state_dict()
    state.optimizer = optimizer_tensors(optimizer)
    save_checkpoint(settings.checkpoint, state)


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
