"""Word vectors that only move when they are read, exactly as if they had moved at every step.

A batch reads a few thousand of the rows of an embedding, but SGD with momentum μ and weight decay λ
moves them all. Without a gradient a row w and its momentum v move by a fixed linear map,

    (w, v) ← A (w, v),        A = ⎡1 − ηλ  −ημ⎤
                                  ⎣  λ       μ ⎦

so a row that was last read k steps ago is brought up to date by Aᵏ. Within an epoch the rate η does
not change; at its end all rows are brought up to date.

Shapes: V words, U words of a batch, E width.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from lamatext.data.token_ids import PAD, Ids, Indices
from lamatext.settings import TrainingSettings


class WordVectors(Protocol):
    """How the rows of an embedding take part in a step."""

    def epoch(self, rate: float, steps: int) -> AbstractContextManager[None]:
        """Within the block ``steps`` steps are made at this rate."""
        ...

    def read(self, ids: Ids) -> Ids:
        """The ids by which the network now finds the vectors of ``ids``."""
        ...

    def step(self) -> None:
        """Move the vectors; the optimiser has moved all else."""
        ...


class AllVectors:
    """Every row moves at every step, by the optimiser itself."""

    def epoch(self, rate: float, steps: int) -> AbstractContextManager[None]:  # noqa: ARG002 - the contract
        """Nothing to do."""
        return nullcontext()

    def read(self, ids: Ids) -> Ids:
        """The ids themselves."""
        return ids

    def step(self) -> None:
        """Nothing to do."""


class LazyVectors:
    """SGD on the rows that a batch reads; its momentum lies where the optimiser has it."""

    def __init__(self, embedding: nn.Embedding, optimizer: SGD) -> None:
        self._embedding, self._whole, self._optimizer = embedding, embedding.weight, optimizer
        self._vectors = self._whole.detach().numpy()  # (V, E), the memory of the parameter
        self._read_at = np.zeros(len(self._vectors), np.int64)  # the step each row was left at
        self._place = np.zeros(len(self._vectors), np.int32)  # of a batch's rows in the batch

    @contextmanager
    def epoch(self, rate: float, steps: int) -> Iterator[None]:
        """Within the block the embedding holds the rows of one batch; after it all, up to date."""
        group = self._optimizer.param_groups[0]
        self._rate, self._decay, self._keep = rate, group["weight_decay"], group["momentum"]
        self._powers = _powers(rate, self._decay, self._keep, steps).to(self._whole.dtype)
        self._momentum = self._buffer()
        self._read_at[:] = self._now = 0
        try:
            yield
        finally:
            self._vectors[:], self._momentum[:] = self._up_to_date(np.arange(len(self._vectors)))
            self._embedding.weight = self._whole

    def read(self, ids: Ids) -> Ids:
        """Put the rows of ``ids`` into the embedding, padding first, and say where each stands."""
        self._rows = rows = self._distinct(ids)
        self._vector, self._moving = self._up_to_date(rows)  # (U, E) each
        self._embedding.weight = nn.Parameter(torch.from_numpy(self._vector))
        return self._place[ids]

    def step(self) -> None:
        """One step of SGD on the rows of the batch."""
        rows, gradient = self._rows, self._embedding.weight.grad
        assert gradient is not None
        vector, moving = torch.from_numpy(self._vector), torch.from_numpy(self._moving)
        moving.mul_(self._keep).add_(gradient).add_(vector, alpha=self._decay)
        vector.add_(moving, alpha=-self._rate)
        self._now += 1
        self._vectors[rows], self._momentum[rows], self._read_at[rows] = (
            self._vector, self._moving, self._now,
        )  # fmt: skip

    def _distinct(self, ids: Ids) -> Ids:
        """The rows that ``ids`` name, each once; ``_place`` says where in that list."""
        flat = np.append(np.int32(PAD), ids.ravel())
        order = np.arange(len(flat), dtype=np.int32)
        self._place[flat[::-1]] = order[::-1]  # the first of equals is written last, and stays
        rows: Ids = flat[self._place[flat] == order]
        self._place[rows] = order[: len(rows)]
        return rows

    def _up_to_date(self, rows: Indices | Ids) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Copies of vectors and momentum as they are after the steps since they were left."""
        age = torch.from_numpy(self._now - self._read_at[rows])
        a, b, c, d = self._powers[:, age, None]  # (U, 1) each
        vector = torch.from_numpy(self._vectors[rows])  # (U, E)
        moving = torch.from_numpy(self._momentum[rows])
        return (
            (a * vector).addcmul_(b, moving).numpy(),
            (c * vector).addcmul_(d, moving).numpy(),
        )

    def _buffer(self) -> NDArray[np.float32]:
        state = self._optimizer.state[self._whole]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = torch.zeros_like(self._whole)
        found: NDArray[np.float32] = state["momentum_buffer"].numpy()
        return found


def word_vectors(
    network: nn.Module, optimizer: Optimizer, settings: TrainingSettings
) -> WordVectors:
    """The lazy way where it is exact and pays: SGD at a rate that an epoch keeps, on the CPU."""
    embedding = getattr(network, "embedding", None)
    if (
        isinstance(embedding, nn.Embedding)
        and isinstance(optimizer, SGD)
        and embedding.weight.requires_grad
        and embedding.weight.device.type == "cpu"
        and settings.schedule != "one-cycle"
    ):
        return LazyVectors(embedding, optimizer)
    return AllVectors()


def _powers(rate: float, decay: float, momentum: float, steps: int) -> Tensor:
    """The four numbers of each of A⁰ … Aˢᵗᵉᵖˢ: (4, steps + 1)."""
    once = np.array([[1 - rate * decay, -rate * momentum], [decay, momentum]])
    found = [np.eye(2)]
    with np.errstate(over="ignore", invalid="ignore"):  # a rate that diverges is told by its loss
        for _ in range(steps):
            found.append(once @ found[-1])
    return torch.from_numpy(np.stack(found).reshape(-1, 4).T.copy())
