"""The training loop: a network and encoded texts in, the best weights on validation out."""

import math
import time

import numpy as np
import torch
from torch import Tensor, nn

from lamatext.data.token_ids import Indices, batches_by_length
from lamatext.errors import ModelError
from lamatext.progress import SILENT, Progress
from lamatext.settings import TrainingSettings
from lamatext.training.batching import Examples, bucketed
from lamatext.training.checkpoint import (
    EpochRecord,
    RunState,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from lamatext.training.cpu_threads import fitting_threads
from lamatext.training.cuda_graphs import Step, steps_of
from lamatext.training.lazy_sgd import AllVectors, WordVectors, word_vectors
from lamatext.training.optimizers import make_optimizer, one_cycle
from lamatext.training.training_step import Plan, batch_of

VALID_WORDS = 16_384  # words in a batch of validation texts


def fit(
    network: nn.Module,
    train: Examples,
    valid: Examples,
    plan: Plan,
    progress: Progress = SILENT,
) -> RunState:
    """Train until validation stops improving; the network ends with its best weights.

    Every epoch seeds itself by (seed, epoch), so that a run taken up at a checkpoint goes the same
    way, bit for bit, as one that was never stopped.
    """
    network.to(plan.device)
    if plan.class_weights is not None:
        plan = plan._replace(class_weights=plan.class_weights.to(plan.device))
    with fitting_threads(network):
        return _fit(network, train, valid, plan, progress)


def _fit(
    network: nn.Module, train: Examples, valid: Examples, plan: Plan, progress: Progress
) -> RunState:
    settings = plan.training
    optimizer = make_optimizer(network, settings)
    state = _begin(network, optimizer, plan)
    vectors, make_step = (
        word_vectors(network, optimizer, settings),
        steps_of(network, optimizer, plan),
    )
    while state.epoch < int(settings.epochs) and not _out_of_patience(state, settings):
        started = time.perf_counter()
        loss, rate = _train_epoch(network, make_step, vectors, train, state, plan, progress)
        state.epoch += 1
        accuracy = accuracy_of(network, valid, plan.device)
        if accuracy > state.best_accuracy or settings.keep_weights == "last":
            state.best_accuracy, state.best_epoch = accuracy, state.epoch
            state.best = _copy(network.state_dict())
        if settings.schedule == "plateau" and state.best_epoch != state.epoch:
            state.rate /= 2
        seconds, words = time.perf_counter() - started, len(train.rows.ids)
        state.history.append(EpochRecord(state.epoch, loss, accuracy, rate, seconds, words))
        _keep(state, network, optimizer, plan)
        progress.note(
            f"epoch {state.epoch}/{settings.epochs}  loss {loss:.4f}  "
            f"validation accuracy {accuracy:.4f}  {seconds:.1f} s"
        )
    network.load_state_dict(state.best)
    return state


def _train_epoch(  # noqa: PLR0913 - the parts of the loop's state
    network: nn.Module,
    make_step: Step,
    vectors: WordVectors,
    train: Examples,
    state: RunState,
    plan: Plan,
    progress: Progress,
) -> tuple[float, float]:
    """One pass over the training texts: the mean loss, and the last rate."""
    settings, epoch = plan.training, state.epoch + 1
    torch.manual_seed(plan.seed * 100_003 + epoch)
    batches = bucketed(
        train.rows.lengths, batch=int(settings.batch_size), seed=plan.seed, epoch=epoch
    )
    progress.stage(f"epoch {epoch}/{settings.epochs}", len(batches))
    total, rate = torch.zeros((), device=plan.device), 0.0
    network.train()
    with vectors.epoch(state.rate, len(batches)):
        for number, rows in enumerate(batches):
            rate = _rate(state, settings, number, len(batches))
            batch = batch_of(train, rows, plan.device, vectors)
            total += make_step(batch, rate).detach() * len(rows)
            vectors.step()
            progress.advance()
    loss = float(total) / len(train)
    if not math.isfinite(loss):
        raise ModelError(
            f"training diverged in epoch {epoch}: the loss is no longer a number. "
            f"Lower training.learning_rate ({settings.learning_rate:g}) or set training.gradient_clip, for example to 1."
        )
    return loss, rate


def accuracy_of(network: nn.Module, examples: Examples, device: torch.device) -> float:
    """The share of texts whose largest logit is their class's."""
    logits = logits_of(network, examples, device)
    return float((logits.argmax(axis=1) == examples.labels).mean())


def logits_of(
    network: nn.Module, examples: Examples, device: torch.device
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Logits (n, C) in evaluation mode, in the order of the examples."""
    network.eval()
    order: list[Indices] = []
    found: list[Tensor] = []
    with fitting_threads(network), torch.inference_mode():
        for rows in batches_by_length(examples.rows.lengths, max_words=VALID_WORDS):
            ids, lengths, _ = batch_of(examples, rows, device, AllVectors())
            found.append(network(ids, lengths).logits.float())
            order.append(rows)
    logits = torch.cat(found).cpu().numpy()
    return logits[np.argsort(np.concatenate(order))]


def _rate(state: RunState, settings: TrainingSettings, number: int, batches: int) -> float:
    if settings.schedule != "one-cycle":
        return state.rate
    done = (state.epoch * batches + number) / (int(settings.epochs) * batches)
    return settings.learning_rate * one_cycle(done)


def _out_of_patience(state: RunState, settings: TrainingSettings) -> bool:
    return settings.keep_weights == "best" and state.epoch - state.best_epoch >= settings.patience


def _begin(network: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan) -> RunState:
    if plan.checkpoint is None or not plan.checkpoint.is_file():
        state = RunState(identity=plan.identity, rate=plan.training.learning_rate)
        _keep(state, network, optimizer, plan)
        return state
    state = load_checkpoint(plan.checkpoint, plan.identity)
    network.load_state_dict(state.weights)
    restore_optimizer(optimizer, state.optimizer)
    return state


def _keep(
    state: RunState,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    plan: Plan,
) -> None:
    if plan.checkpoint is None:
        return
    state.weights = network.state_dict()
    state.optimizer = optimizer_tensors(optimizer)
    save_checkpoint(plan.checkpoint, state)


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
