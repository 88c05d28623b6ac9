"""The bi-GRU encoder alone, forward and backward: the compiled kernel against ``torch.nn.GRU``.

Measured at the paper's sizes, and over a sweep of sizes that checks whether the automatic choice
between the kernel and ``nn.GRU`` is ever the slower one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from benchmarks.comparison import Comparison, time_alternating
from benchmarks.plain_pytorch import best_threads, plain_pytorch
from lamatext.kernels.gru_dispatch import packed_gru, run_gru, use_cpu_kernel
from lamatext.training.cpu_threads import one_torch_thread

HIDDEN = (50, 128, 256)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LENGTHS = ((1, 8), (8, 8), (50, 200))  # words per text: messages, all of one length, articles
MAX_WORDS = 12_800  # words per batch; texts of larger batches are shortened
MAX_ROUNDS, MIN_ROUNDS = 100, 3
WORK = 2_000_000  # words times hidden units over all rounds of one size


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one GRU encoder run; the defaults are the paper's."""

    batch: int = 32
    shortest: int = 50
    longest: int = 200
    width: int = 100
    hidden: int = 50


def measure(
    hidden: Sequence[int] = HIDDEN, batches: Sequence[int] = BATCHES, *, rounds: int = 15
) -> list[Comparison]:
    """Compare the GRU encoder with ``nn.GRU`` at the paper's sizes and over the size sweep."""
    return compare_gru(Shape(), rounds=rounds) + [slowest_size(units, batches) for units in hidden]


def compare_gru(shape: Shape, *, rounds: int, seed: int = 0) -> list[Comparison]:
    """Compare the GRU kernel with ``nn.GRU`` on packed and padded input, at its best threads."""
    random = torch.Generator().manual_seed(seed)
    gru = nn.GRU(shape.width, shape.hidden, batch_first=True, bidirectional=True)
    lengths = torch.randint(shape.shortest, shape.longest + 1, (shape.batch,), generator=random)
    size = (shape.batch, int(lengths.max()), shape.width)
    inputs = torch.randn(size, generator=random).requires_grad_()
    output_gradient = torch.ones(*size[:2], 2 * shape.hidden)
    leaves = [inputs, *gru.parameters()]

    def forward_backward(forward: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(forward(), leaves, output_gradient)

    def on_threads(run: Callable[[], object], threads: int) -> Callable[[], object]:
        def within() -> None:
            with plain_pytorch(threads):
                run()

        return within

    baselines = {
        "packed": forward_backward(lambda: packed_gru(gru, inputs, lengths)),
        "padded": forward_backward(lambda: gru(inputs)[0]),
    }
    threads = {name: best_threads(run) for name, run in baselines.items()}
    contestants = {name: on_threads(run, threads[name]) for name, run in baselines.items()}
    kernel = forward_backward(lambda: run_gru(gru, inputs, lengths))

    def ours() -> None:
        with one_torch_thread():  # as in a training run
            kernel()

    seconds = time_alternating({"ours": ours, **contestants}, rounds)
    return [
        Comparison.speedup(
            f"encoder, {name} nn.GRU",
            seconds["ours"],
            seconds[name],
            baseline_threads=threads[name],
            kernel=use_cpu_kernel(gru, inputs, lengths),
        )
        for name in baselines
    ]


def sweep_shapes(hidden: int, batches: Sequence[int]) -> Iterator[Shape]:
    """Yield every batch shape of the GRU size sweep for one number of hidden units."""
    for batch in batches:
        for shortest, longest in LENGTHS:
            shrink = max(1, batch * longest // MAX_WORDS)
            yield Shape(batch, shortest // shrink or 1, longest // shrink, hidden=hidden)


def slowest_size(hidden: int, batches: Sequence[int]) -> Comparison:
    """Return the sweep's worst ratio to ``nn.GRU``; the details list the ratios of all sizes.

    Sizes that lamatext leaves to ``nn.GRU`` are listed but cannot be the worst.
    """
    ratios: dict[str, dict[str, float]] = {}
    comparisons: list[Comparison] = []
    for shape in sweep_shapes(hidden, batches):
        rounds = WORK // (shape.batch * shape.longest * hidden)
        both = compare_gru(shape, rounds=max(MIN_ROUNDS, min(rounds, MAX_ROUNDS)))
        name = f"{shape.batch} texts of {shape.shortest} to {shape.longest} words"
        if both[0].details["kernel"]:
            comparisons += both
        else:
            name += ", left to torch"
        ratios[name] = {comparison.metric: round(comparison.ratio, 3) for comparison in both}
    worst = min(comparisons, key=lambda comparison: comparison.ratio)
    return replace(
        worst,
        metric=f"slowest at {hidden} units, nn.GRU",
        details={"against": worst.metric, "sizes": ratios},
    )
