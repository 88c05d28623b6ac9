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
    """Embedding updates without lazy SGD: the optimizer itself moves every row at every step."""

    def epoch(self, rate: float, steps: int) -> AbstractContextManager[None]:  # noqa: ARG002 - for LazySgd
        """Open an epoch of ``steps`` lazy or dense embedding updates at one learning rate."""
        return nullcontext()

    def load_rows(self, ids: Ids) -> Ids:
        """Load the embedding rows of a mini-batch; return its ids, which lazy SGD renumbers."""
        return ids

    def step(self) -> None:
        """Update the embedding rows that lazy SGD has loaded, after the optimizer's own step."""


class LazySgd(DenseUpdates):
    """SGD that updates only the embedding rows of each mini-batch; the others catch up later.

    The momentum is kept in the optimizer's own buffer, so checkpoints contain it.
    """

    def __init__(self, embedding: nn.Embedding, optimizer: SGD) -> None:
        self._embedding, self._whole, self._optimizer = embedding, embedding.weight, optimizer
        self._vectors = self._whole.detach().numpy()  # (V, E), shares the parameter's memory
        self._updated_at = np.zeros(len(self._vectors), np.int64)  # last step of each row
        self._position = np.zeros(len(self._vectors), np.int32)  # of a row within the mini-batch

    @contextmanager
    def epoch(self, rate: float, steps: int) -> Iterator[None]:
        """Let the embedding hold one mini-batch's rows; after the epoch all rows catch up."""
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
        """Put the rows of ``ids`` into the embedding, padding first; return the renumbered ids."""
        self._rows = rows = self._distinct(ids)
        self._batch_vectors, self._batch_momentum = self._caught_up(rows)  # (U, E) each
        self._embedding.weight = nn.Parameter(torch.from_numpy(self._batch_vectors))
        return self._position[ids]

    def step(self) -> None:
        """Run one SGD step on the embedding rows of the mini-batch."""
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
        """Return the distinct embedding rows of ``ids`` and store each row's ``_position``."""
        flat = np.append(np.int32(PAD), ids.ravel())
        order = np.arange(len(flat), dtype=np.int32)
        self._position[flat[::-1]] = order[::-1]  # of equal ids the first is written last
        rows: Ids = flat[self._position[flat] == order]
        self._position[rows] = order[: len(rows)]
        return rows

    def _caught_up(self, rows: Indices | Ids) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return copies of embedding rows and momentum after the SGD steps they have skipped."""
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
    """Return lazy SGD where it is exact: SGD on the CPU at one learning rate per epoch."""
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
    """Return the four entries of each SGD matrix power A⁰ … Aˢᵗᵉᵖˢ: (4, steps + 1)."""
    once = np.array([[1 - rate * decay, -rate * momentum], [decay, momentum]])
    powers = [np.eye(2)]
    with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported by its loss
        for _ in range(steps):
            powers.append(once @ powers[-1])
    return torch.from_numpy(np.stack(powers).reshape(-1, 4).T.copy())
