"""Training on an NVIDIA GPU: the whole loop of ``lama-ctx`` against a bare cuDNN bi-GRU.

The bare one is the forward and backward pass of ``nn.GRU`` on a padded batch that lies on the GPU;
ours adds the batch itself, the embedding, attention, classifier, loss and optimiser.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from benchmarks.figures import Figure, SkippedError
from lamatext.data.token_ids import Ragged
from lamatext.nn.network import build_network
from lamatext.recipes import load_recipe
from lamatext.settings import Recipe
from lamatext.training.batching import Examples, bucketed
from lamatext.training.cuda_graphs import steps_of
from lamatext.training.lazy_sgd import word_vectors
from lamatext.training.optimizers import make_optimizer
from lamatext.training.training_step import Plan, batch_of

WORDS, VOCABULARY, CLASSES = 250, 20_000, 2
STEPS = 30  # in one turn

Loop = Callable[[int], None]  # makes so many steps


def figures(batches: Sequence[int] = (32, 256), *, turns: int = 7) -> list[Figure]:
    """Words a second of both, for each size of batch."""
    if not torch.cuda.is_available():
        raise SkippedError("it needs an NVIDIA GPU, and torch finds none.")
    device = torch.device("cuda")
    return [measure(batch, device, turns=turns) for batch in batches]


def measure(batch: int, device: torch.device, *, turns: int = 7, steps: int = STEPS) -> Figure:
    """Our words a second over the bare ones."""
    loops = {"ours": our_loop(batch, device), "bare": bare_loop(batch, device)}
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(turns + 1):
        for name, loop in loops.items():
            passed = _timed(loop, steps, device)
            if turn:  # the first compiles and warms up
                seconds[name].append(passed)
    speeds = {name: [batch * WORDS * steps / s for s in times] for name, times in seconds.items()}
    ratios = [ours / bare for ours, bare in zip(speeds["ours"], speeds["bare"], strict=True)]
    return Figure.of(
        f"words/s at batch {batch}, cuDNN",
        ratios,
        speeds["ours"],
        speeds["bare"],
        scale=1e-6,
        unit="M words/s",
        details={"batch": batch, "words": WORDS, "steps": steps, "device": _name(device)},
    )


def our_loop(batch: int, device: torch.device, recipe: Recipe | None = None) -> Loop:
    """The steps that ``fit`` makes in an epoch, from ids on the host."""
    recipe = recipe or load_recipe("paper/lama-ctx")
    torch.manual_seed(0)
    network = build_network(
        recipe.model, vocabulary=VOCABULARY, width=recipe.text.vector_width, classes=CLASSES
    )
    network.to(device).train()
    plan = Plan(recipe.model, recipe.training, 0, device)
    optimizer = make_optimizer(network, recipe.training)
    vectors = word_vectors(network, optimizer, recipe.training)
    make_step = steps_of(network, optimizer, plan)
    examples = made_up_examples(4 * batch)
    batches = bucketed(examples.rows.lengths, batch=batch, seed=0, epoch=1)

    def run(steps: int) -> None:
        total, rate = torch.zeros((), device=device), recipe.training.learning_rate
        with vectors.epoch(rate, steps):
            for number in range(steps):
                rows = batches[number % len(batches)]
                given = batch_of(examples, rows, device, vectors)
                total += make_step(given, rate).detach()
                vectors.step()

    return run


def made_up_examples(texts: int) -> Examples:
    """Texts of ``WORDS`` words, drawn as words of a language are: few of them often."""
    draw = np.random.default_rng(0)
    ids = 2 + (VOCABULARY - 2) * draw.random(texts * WORDS) ** 3
    rows = Ragged(ids.astype(np.int32), np.arange(texts + 1, dtype=np.int64) * WORDS)
    return Examples(rows, draw.integers(0, CLASSES, texts))


def bare_loop(batch: int, device: torch.device) -> Loop:
    """Forward and backward of ``nn.GRU`` at the sizes of ``lama-ctx``, and nothing else."""
    gru = nn.GRU(100, 50, batch_first=True, bidirectional=True).to(device)
    inputs = torch.randn(batch, WORDS, 100, device=device, requires_grad=True)
    wanted = torch.randn(batch, WORDS, 100, device=device)
    leaves = [inputs, *gru.parameters()]

    def run(steps: int) -> None:
        for _ in range(steps):
            torch.autograd.grad(gru(inputs)[0], leaves, wanted)

    return run


def _timed(loop: Loop, steps: int, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    loop(steps)
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
