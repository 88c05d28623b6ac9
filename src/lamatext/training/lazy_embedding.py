"""Lazy embedding updates: SGD or AdamW on the rows a mini-batch reads, equivalent to dense updates.

A mini-batch reads a few thousand of the embedding's rows, but an optimizer with momentum moves all
of them. How a row moves without a gradient is known in closed form, so a row catches up on the
steps it has skipped when it is next read; at the end of an epoch all rows catch up.

SGD (momentum μ, weight decay λ, a constant rate η within an epoch) changes a row w and its momentum
v by a fixed linear map, so k skipped steps are its k-th power:

    (w, v) ← A (w, v),        A = ⎡1 − ηλ  −ημ⎤
                                  ⎣  λ       μ ⎦

AdamW (no weight decay on embeddings, its ε neglected in skipped steps) with the moments m, v moves
a row that was last read at step t by

    w ← w − m/√v · Σⱼ₌₁ᵏ η̂(t+j) ρʲ,    ρ = β₁/√β₂,    η̂(s) = η(s) √(1 − β₂ˢ) / (1 − β₁ˢ)

The sum is L(t) − ρᵏ L(t+k), where L(t) = ρ (η̂(t+1) + L(t+1)) is computed once for each epoch.

The loops over the rows of AdamW are compiled (``kernels/adamw_rows_cpu.py``).

Shapes: V words, U distinct words of a mini-batch, E embedding width.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from lamatext.data.token_ids import PAD, Ids
from lamatext.kernels.adamw_rows_cpu import (
    RowState,
    SkippedSteps,
    Step,
    catch_up,
    renumber,
    update,
)
from lamatext.settings import TrainingSettings

State = tuple[Tensor, ...]  # vectors, then the optimizer's buffers; (V, E) or (U, E) each


class DenseUpdates:
    """Dense embedding updates, in which the optimizer updates every row at every step."""

    def epoch(self, rates: Sequence[float]) -> AbstractContextManager[None]:  # noqa: ARG002 - for LazyUpdates
        """Return a no-op context manager for one epoch of dense embedding updates."""
        return nullcontext()

    def load_rows(self, ids: Ids) -> Ids:
        """Return the token ids unchanged, because dense updates use the whole embedding matrix."""
        return ids

    def step(self) -> None:
        """Do nothing, because with dense updates the optimizer itself updates the embedding."""


class LazyUpdates(DenseUpdates):
    """Lazy embedding updates, which change only the rows that the current mini-batch reads.

    The buffers belong to the optimizer, so checkpoints contain them. Each subclass implements one
    optimizer.
    """

    _buffers: tuple[str, ...]  # names of the buffers in the optimizer's state

    def __init__(self, embedding: nn.Embedding, optimizer: Optimizer) -> None:
        self._embedding, self._optimizer = embedding, optimizer
        self.whole = embedding.weight  # (V, E)
        self._updated_at = np.zeros(len(self.whole), np.int64)  # last step of each row
        self._position = np.zeros(len(self.whole), np.int32)  # of a row within the mini-batch

    @contextmanager
    def epoch(self, rates: Sequence[float]) -> Iterator[None]:
        """Run an epoch of lazy updates, then bring all embedding rows up to date.

        During the epoch, the embedding holds only the rows of the current mini-batch. ``rates`` are
        the learning rates of all steps of the epoch.
        """
        state = self._optimizer.state[self.whole]
        for name in self._buffers:
            if state.get(name) is None:
                state[name] = torch.zeros_like(self.whole)
        self._state = (self.whole.detach(), *(state[name] for name in self._buffers))
        self._updated_at[:] = self._now = 0
        self._prepare(rates)
        try:
            yield
        finally:
            self._catch_up(np.flatnonzero(self._updated_at < self._now))
            self._embedding.weight = self.whole
            self._finish(self._now)

    @property
    def rows(self) -> Tensor:
        """Embedding rows of the current mini-batch, (U, E)."""
        return self._embedding.weight

    @property
    def gradient(self) -> Tensor:
        """Gradient of the embedding rows in the current mini-batch, (U, E)."""
        gradient = self._embedding.weight.grad
        assert gradient is not None
        return gradient

    def load_rows(self, ids: Ids) -> Ids:
        """Load the embedding rows that a mini-batch uses and map its token ids to those rows.

        The padding row comes first.
        """
        rows, numbers = np.empty(ids.size + 1, np.int32), np.empty(ids.shape, np.int32)
        count = renumber(PAD, ids.reshape(-1), self._position, rows, numbers.reshape(-1))
        if count < 0:
            raise IndexError(f"a token id is not one of the {len(self.whole)} embedding rows.")
        self._batch_rows = rows[:count]
        self._embedding.weight = nn.Parameter(self._load(self._batch_rows))
        return numbers

    def step(self) -> None:
        """Apply one optimizer step to the embedding rows of the current mini-batch."""
        self._update(self.gradient)
        self._now += 1
        self._updated_at[self._batch_rows] = self._now

    def _prepare(self, rates: Sequence[float]) -> None:
        """Precompute factors for the lazy embedding updates of one epoch.

        ``rates`` are the learning rates of all steps of the epoch.
        """
        raise NotImplementedError

    def _load(self, rows: Ids) -> Tensor:
        """Return copies (U, E) of embedding rows with all skipped lazy updates applied."""
        raise NotImplementedError

    def _update(self, gradient: Tensor) -> None:
        """Apply one optimizer step to the embedding rows of the current mini-batch."""
        raise NotImplementedError

    def _catch_up(self, rows: NDArray[np.int64]) -> None:
        """Apply all skipped lazy updates to embedding rows at the end of an epoch."""
        raise NotImplementedError

    def _finish(self, steps: int) -> None:
        """Complete the optimizer's state after an epoch of lazy updates."""


class LazySgd(LazyUpdates):
    """Lazy embedding updates equivalent to SGD with one learning rate per epoch."""

    _buffers = ("momentum_buffer",)

    def _prepare(self, rates: Sequence[float]) -> None:
        group = self._optimizer.param_groups[0]
        self._rate, self._decay, self._keep = rates[0], group["weight_decay"], group["momentum"]
        self._powers = _powers(self._rate, self._decay, self._keep, len(rates))
        self._powers = self._powers.to(self.whole.dtype)

    def _load(self, rows: Ids) -> Tensor:
        self._batch = self._caught_up(torch.from_numpy(rows))
        return self._batch[0]

    def _update(self, gradient: Tensor) -> None:
        vectors, momentum = self._batch
        momentum.mul_(self._keep).add_(gradient).add_(vectors, alpha=self._decay)
        vectors.add_(momentum, alpha=-self._rate)
        self._write(torch.from_numpy(self._batch_rows), self._batch)

    def _catch_up(self, rows: NDArray[np.int64]) -> None:
        chosen = torch.from_numpy(rows)
        self._write(chosen, self._caught_up(chosen))

    def _caught_up(self, rows: Tensor) -> State:
        """Return copies of embedding rows and their momentum with all skipped SGD steps applied."""
        vectors, momentum = (array.index_select(0, rows) for array in self._state)
        skipped = torch.from_numpy(self._now - self._updated_at[rows.numpy()])
        a, b, c, d = self._powers[:, skipped, None]  # (U, 1) each
        before = vectors.clone()
        vectors.mul_(a).addcmul_(b, momentum)
        momentum.mul_(d).addcmul_(c, before)
        return vectors, momentum

    def _write(self, rows: Tensor, state: State) -> None:
        for array, values in zip(self._state, state, strict=True):
            array.index_copy_(0, rows.long(), values)


class LazyAdamW(LazyUpdates):
    """Lazy embedding updates equivalent to AdamW without weight decay."""

    _buffers = ("exp_avg", "exp_avg_sq")

    def _prepare(self, rates: Sequence[float]) -> None:
        group = self._optimizer.param_groups[-1]
        (self._beta1, self._beta2), self._epsilon = group["betas"], group["eps"]
        ratio = self._beta1 / self._beta2**0.5
        step = self._optimizer.state[self.whole].setdefault("step", torch.zeros(()))
        number = float(step) + 1 + np.arange(len(rates))
        first, second = 1 - self._beta1**number, 1 - self._beta2**number  # bias corrections
        self._corrected = np.asarray(rates) * np.sqrt(second) / first  # η̂ of each step
        self._root = np.sqrt(second)
        sums = np.zeros(len(rates) + 1)  # L of each step
        for t in range(len(rates) - 1, -1, -1):
            sums[t] = ratio * (self._corrected[t] + sums[t + 1])
        ages = np.arange(len(rates) + 1)
        self._skipped = SkippedSteps(
            sums, *(base**ages for base in (ratio, self._beta1, self._beta2))
        )
        vectors, *moments = (array.numpy() for array in self._state)
        self._arrays = RowState(vectors, moments[0], moments[1], self._updated_at)
        self._number = self._arrays.vectors.dtype.type

    def _load(self, rows: Ids) -> Tensor:
        batch = torch.empty(len(rows), self.whole.shape[1], dtype=self.whole.dtype)
        self._apply_skipped(rows, batch.numpy())
        return batch

    def _update(self, gradient: Tensor) -> None:
        step = Step(
            self._number(1 - self._beta1),
            self._number(self._beta2),
            self._number(1 - self._beta2),
            self._number(self._corrected[self._now]),
            self._number(self._epsilon * self._root[self._now]),
        )
        slopes = gradient.contiguous().numpy()
        update(self._arrays, self._batch_rows, self._now, slopes, step)

    def _catch_up(self, rows: NDArray[np.int64]) -> None:
        self._apply_skipped(rows.astype(np.int32), self._arrays.vectors[:0])

    def _apply_skipped(self, rows: Ids, batch: NDArray[np.floating[Any]]) -> None:
        """Apply skipped AdamW steps to embedding rows; copy the rows to a non-empty ``batch``."""
        epsilon = self._number(self._epsilon)
        catch_up(self._arrays, rows, self._now, self._skipped, epsilon, batch)

    def _finish(self, steps: int) -> None:
        self._optimizer.state[self.whole]["step"] += steps


def embedding_updates(
    network: nn.Module, optimizer: Optimizer, settings: TrainingSettings
) -> DenseUpdates:
    """Return lazy embedding updates if they are equivalent to dense ones, else dense updates.

    They are equivalent for AdamW without weight decay on the embedding and for SGD with one
    learning rate per epoch. Lazy updates run only on the CPU.
    """
    embedding = getattr(network, "embedding", None)
    if (
        not isinstance(embedding, nn.Embedding)
        or not embedding.weight.requires_grad
        or embedding.weight.device.type != "cpu"
    ):
        return DenseUpdates()
    if isinstance(optimizer, SGD) and settings.schedule != "one-cycle":
        return LazySgd(embedding, optimizer)
    if isinstance(optimizer, AdamW) and optimizer.param_groups[-1]["weight_decay"] == 0:
        return LazyAdamW(embedding, optimizer)
    return DenseUpdates()


def _powers(rate: float, decay: float, momentum: float, steps: int) -> Tensor:
    """Return the powers of the matrix that advances an embedding row by one lazy SGD step.

    The shape is (4, steps + 1): the four entries of each of A⁰ … Aˢᵗᵉᵖˢ.
    """
    once = np.array([[1 - rate * decay, -rate * momentum], [decay, momentum]])
    powers = [np.eye(2)]
    with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported by its loss
        for _ in range(steps):
            powers.append(once @ powers[-1])
    return torch.from_numpy(np.stack(powers).reshape(-1, 4).T.copy())
