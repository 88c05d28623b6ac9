"""Training speed on an NVIDIA GPU: the whole loop of ``lama-ctx`` against a bare cuDNN bi-GRU.

The baseline is only the forward and backward pass of ``nn.GRU`` on a padded batch that is already
on the GPU; ours adds batching, embedding, attention, classifier, loss and optimizer.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from benchmarks.comparison import Comparison, SkippedError
from lamatext.data.token_ids import TokenIds
from lamatext.nn.network import build_network
from lamatext.recipes import load_recipe
from lamatext.training.batching import EncodedDataset, make_batch, shuffled_batches
from lamatext.training.lazy_embedding import embedding_updates
from lamatext.training.loop import LoopSettings, make_training_step
from lamatext.training.optimizers import make_optimizer

WORDS, VOCABULARY, CLASSES = 250, 20_000, 2
STEPS = 30  # per round

Loop = Callable[[int], None]  # runs this many steps


def measure(batches: Sequence[int] = (32, 256), *, rounds: int = 7) -> list[Comparison]:
    """Compare GPU training speed in words per second at each batch size."""
    if not torch.cuda.is_available():
        raise SkippedError("it needs an NVIDIA GPU, and torch finds none.")
    device = torch.device("cuda")
    return [compare_loops(batch, device, rounds=rounds) for batch in batches]


def compare_loops(
    batch: int, device: torch.device, *, rounds: int, steps: int = STEPS
) -> Comparison:
    """Compare the words per second of our training loop with those of the bare cuDNN GRU."""
    loops = {"ours": training_loop(batch, device), "bare": bare_gru_loop(batch, device)}
    speeds: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(rounds + 1):
        for name, loop in loops.items():
            seconds = _timed(loop, steps, device)
            if number:  # the first round compiles and warms up
                speeds[name].append(batch * WORDS * steps / seconds)
    return Comparison.throughput(
        f"words/s at batch {batch}, cuDNN",
        (speeds["ours"], speeds["bare"]),
        "M words/s",
        scale=1e-6,
        details={"batch": batch, "words": WORDS, "steps": steps, "device": _name(device)},
    )


def training_loop(batch: int, device: torch.device) -> Loop:
    """Return the GPU training steps that ``fit`` runs in an epoch, from token ids on the host."""
    recipe = load_recipe("paper/lama-ctx")
    torch.manual_seed(0)
    network = build_network(
        recipe.model, vocabulary=VOCABULARY, width=recipe.text.vector_width, classes=CLASSES
    )
    network.to(device).train()
    settings = LoopSettings(recipe.model, recipe.training, 0, device)
    optimizer = make_optimizer(network, recipe.training)
    embeddings = embedding_updates(network, optimizer, recipe.training)
    step = make_training_step(network, optimizer, settings)
    examples = synthetic_examples(4 * batch)
    batches = shuffled_batches(examples.token_ids.lengths, batch_size=batch, seed=0, epoch=1)

    def run(steps: int) -> None:
        total, rate = torch.zeros((), device=device), recipe.training.learning_rate
        with embeddings.epoch([rate] * steps):
            for number in range(steps):
                rows = batches[number % len(batches)]
                inputs = make_batch(examples, rows, device, embeddings.load_rows)
                total += step(inputs, rate).detach()
                embeddings.step()

    return run


def synthetic_examples(texts: int) -> EncodedDataset:
    """Return random texts for GPU training: ``WORDS`` words each, a few of them frequent."""
    draw = np.random.default_rng(0)
    ids = 2 + (VOCABULARY - 2) * draw.random(texts * WORDS) ** 3
    rows = TokenIds(ids.astype(np.int32), np.arange(texts + 1, dtype=np.int64) * WORDS)
    return EncodedDataset(rows, draw.integers(0, CLASSES, texts))


def bare_gru_loop(batch: int, device: torch.device) -> Loop:
    """Return steps of a bare ``nn.GRU``, forward and backward, at the sizes of ``lama-ctx``."""
    gru = nn.GRU(100, 50, batch_first=True, bidirectional=True).to(device)
    inputs = torch.randn(batch, WORDS, 100, device=device, requires_grad=True)
    output_gradient = torch.randn(batch, WORDS, 100, device=device)
    leaves = [inputs, *gru.parameters()]

    def run(steps: int) -> None:
        for _ in range(steps):
            torch.autograd.grad(gru(inputs)[0], leaves, output_gradient)

    return run


def _timed(loop: Loop, steps: int, device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    loop(steps)
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
