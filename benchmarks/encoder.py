"""Forward and backward of the encoder alone: the compiled bi-GRU against ``torch.nn.GRU``.

All run in one process in turns, so that a busy machine slows them alike; what counts are ratios.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.figures import Figure, in_turns
from benchmarks.plain import best_threads, plain_torch
from lamatext.kernels.gru import packed_gru, run_gru, use_kernel
from lamatext.training.cpu_threads import small_threads


@dataclass(frozen=True, slots=True)
class Shape:
    """What is run; the paper's sizes."""

    batch: int = 32
    shortest: int = 50
    longest: int = 200
    width: int = 100
    hidden: int = 50


def figures(shape: Shape, *, turns: int = 15, seed: int = 0) -> list[Figure]:
    """Ratios to ``nn.GRU`` on packed sequences and on the padded batch, at its best threads."""
    random = torch.Generator().manual_seed(seed)
    gru = nn.GRU(shape.width, shape.hidden, batch_first=True, bidirectional=True)
    lengths = torch.randint(shape.shortest, shape.longest + 1, (shape.batch,), generator=random)
    size = (shape.batch, int(lengths.max()), shape.width)
    inputs = torch.randn(size, generator=random).requires_grad_()
    given = torch.ones(*size[:2], 2 * shape.hidden)
    leaves = [inputs, *gru.parameters()]

    def back_and_forth(forward: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(forward(), leaves, given)

    def on_threads(run: Callable[[], object], threads: int) -> Callable[[], object]:
        def within() -> None:
            with plain_torch(threads):
                run()

        return within

    baselines = {
        "packed": back_and_forth(lambda: packed_gru(gru, inputs, lengths)),
        "padded": back_and_forth(lambda: gru(inputs)[0]),
    }
    threads = {name: best_threads(run) for name, run in baselines.items()}
    contestants = {name: on_threads(run, threads[name]) for name, run in baselines.items()}
    fast = back_and_forth(lambda: run_gru(gru, inputs, lengths))

    def ours() -> None:
        with small_threads():  # as in a training run
            fast()

    seconds = in_turns({"ours": ours, **contestants}, turns)
    return [
        Figure.faster(
            f"encoder, {name} nn.GRU",
            seconds["ours"],
            seconds[name],
            baseline_threads=threads[name],
            kernel=use_kernel(gru, inputs, lengths),
        )
        for name in baselines
    ]
