"""Lazy SGD for embeddings: update only the rows a mini-batch reads, with the result of dense SGD.

A mini-batch reads a few thousand of the embedding's rows, but SGD with momentum μ and weight decay
λ moves all of them. Without a gradient, a row w and its momentum v change by a fixed linear map,

    (w, v) ← A (w, v),        A = ⎡1 − ηλ  −ημ⎤
                                  ⎣  λ       μ ⎦

so a row that was last read k steps ago catches up with Aᵏ. The learning rate η is constant within
an epoch; at the end of the epoch all rows catch up.

Shapes: V words, U distinct words of a mini-batch, E embedding width.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from lamatext.data.token_ids import PAD, Ids, Indices
from lamatext.settings import TrainingSettings


class DenseUpdates:
    """Embedding updates without lazy SGD: the optimizer updates every row at every step."""

    def epoch(self, rate: float, steps: int) -> AbstractContextManager[None]:  # noqa: ARG002 - for LazySgd
        """Return a context that does nothing, where lazy SGD would set up an epoch."""
        return nullcontext()

    def load_rows(self, ids: Ids) -> Ids:
        """Return the token ids unchanged, where lazy SGD would load their embedding rows."""
        return ids

    def step(self) -> None:
        """Do nothing, where lazy SGD would update the embedding rows of the mini-batch."""


class LazySgd(DenseUpdates):
    """Lazy SGD, which updates only the embedding rows that the current mini-batch reads.

    The other rows catch up on skipped steps when they are next read or the epoch ends. The momentum
    is kept in the optimizer's own buffer, so checkpoints contain it.
    """

    def __init__(self, embedding: nn.Embedding, optimizer: SGD) -> None:
        self._embedding, self._whole, self._optimizer = embedding, embedding.weight, optimizer
        self._vectors = self._whole.detach().numpy()  # (V, E), shares the parameter's memory
        self._updated_at = np.zeros(len(self._vectors), np.int64)  # last step of each row
        self._position = np.zeros(len(self._vectors), np.int32)  # of a row within the mini-batch

    @contextmanager
    def epoch(self, rate: float, steps: int) -> Iterator[None]:
        """Run an epoch of lazy SGD; at its end, bring all embedding rows up to date.

        During the epoch the embedding holds only the rows of the current mini-batch.
        """
        group = self._optimizer.param_groups[0]
        self._rate, self._decay, self._keep = rate, group["weight_decay"], group["momentum"]
        self._powers = _powers(rate, self._decay, self._keep, steps).to(self._whole.dtype)
        self._momentum = self._momentum_buffer()
        self._updated_at[:] = self._now = 0
        try:
            yield
        finally:
            self._vectors[:], self._momentum[:] = self._caught_up(np.arange(len(self._vectors)))
            self._embedding.weight = self._whole

    def load_rows(self, ids: Ids) -> Ids:
        """Load the embedding rows of a mini-batch for lazy SGD and return the renumbered ids.

        The padding row comes first.
        """
        self._rows = rows = self._distinct(ids)
        self._batch_vectors, self._batch_momentum = self._caught_up(rows)  # (U, E) each
        self._embedding.weight = nn.Parameter(torch.from_numpy(self._batch_vectors))
        return self._position[ids]

    def step(self) -> None:
        """Apply one lazy SGD step to the embedding rows of the current mini-batch."""
        rows, gradient = self._rows, self._embedding.weight.grad
        assert gradient is not None
        vectors = torch.from_numpy(self._batch_vectors)
        momentum = torch.from_numpy(self._batch_momentum)
        momentum.mul_(self._keep).add_(gradient).add_(vectors, alpha=self._decay)
        vectors.add_(momentum, alpha=-self._rate)
        self._now += 1
        self._vectors[rows] = self._batch_vectors
        self._momentum[rows] = self._batch_momentum
        self._updated_at[rows] = self._now

    def _distinct(self, ids: Ids) -> Ids:
        """Return the distinct embedding rows that lazy SGD has to load for ``ids``.

        Also store the position of each row in ``_position``.
        """
        flat = np.append(np.int32(PAD), ids.ravel())
        order = np.arange(len(flat), dtype=np.int32)
        self._position[flat[::-1]] = order[::-1]  # of equal ids the first is written last
        rows: Ids = flat[self._position[flat] == order]
        self._position[rows] = order[: len(rows)]
        return rows

    def _caught_up(self, rows: Indices | Ids) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return embedding rows and their momentum after the SGD steps that they have skipped.

        Both are copies.
        """
        age = torch.from_numpy(self._now - self._updated_at[rows])
        a, b, c, d = self._powers[:, age, None]  # (U, 1) each
        vectors = torch.from_numpy(self._vectors[rows])  # (U, E)
        momentum = torch.from_numpy(self._momentum[rows])
        return (
            (a * vectors).addcmul_(b, momentum).numpy(),
            (c * vectors).addcmul_(d, momentum).numpy(),
        )

    def _momentum_buffer(self) -> NDArray[np.float32]:
        state = self._optimizer.state[self._whole]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = torch.zeros_like(self._whole)
        buffer: NDArray[np.float32] = state["momentum_buffer"].numpy()
        return buffer


def embedding_updates(
    network: nn.Module, optimizer: Optimizer, settings: TrainingSettings
) -> DenseUpdates:
    """Return lazy SGD if its result equals that of dense SGD, and dense updates otherwise.

    They are equal for SGD on the CPU with one learning rate per epoch.
    """
    embedding = getattr(network, "embedding", None)
    if (
        isinstance(embedding, nn.Embedding)
        and isinstance(optimizer, SGD)
        and embedding.weight.requires_grad
        and embedding.weight.device.type == "cpu"
        and settings.schedule != "one-cycle"
    ):
        return LazySgd(embedding, optimizer)
    return DenseUpdates()


def _powers(rate: float, decay: float, momentum: float, steps: int) -> Tensor:
    """Return the powers of the matrix that advances an embedding row by one SGD step.

    The shape is (4, steps + 1): the four entries of each of A⁰ … Aˢᵗᵉᵖˢ.
    """
    once = np.array([[1 - rate * decay, -rate * momentum], [decay, momentum]])
    powers = [np.eye(2)]
    with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported by its loss
        for _ in range(steps):
            powers.append(once @ powers[-1])
    return torch.from_numpy(np.stack(powers).reshape(-1, 4).T.copy())
