"""One epoch of training on two processes with a core each, against one process with one core.

Made-up token ids with the frequencies of words in texts, the default recipe's network. Both sides
train on the same mini-batches in alternation. The records say what a step spends on exchanging
gradients, waiting for the other process included, and on the embedding rows of the mini-batch,
which every process updates for itself.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

import numpy as np
import torch

from benchmarks.comparison import Comparison, SkippedError
from lamatext.data.token_ids import TokenIds
from lamatext.kernels.kernel_threads import THREADS, usable_cores
from lamatext.nn.network import build_network
from lamatext.recipes import load_recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.lazy_embedding import LazyAdamW
from lamatext.training.loop import LoopSettings, fit
from lamatext.training.process_group import ProcessGroup, training_processes

CPU = torch.device("cpu")
VOCABULARY = 20_000
PROCESSES = 2
# Texts, words per text, texts per mini-batch.
SIZES = {
    "200 words": (4_000, 200, 64),
    "20 words, batches of 256": (20_000, 20, 256),
    "20 words": (20_000, 20, 64),
}


def measure(*, rounds: int = 5, texts: float = 1.0) -> list[Comparison]:
    """Compare the seconds per epoch for short and for long texts."""
    if usable_cores() < PROCESSES:
        raise SkippedError(f"it needs {PROCESSES} cores.")
    os.environ[THREADS] = "1"
    torch.set_num_threads(1)
    with training_processes(PROCESSES, CPU):
        return [
            _compare_epochs(name, (int(texts * count), words, batch_size), rounds)
            for name, (count, words, batch_size) in SIZES.items()
        ]


def _compare_epochs(name: str, size: tuple[int, int, int], rounds: int) -> Comparison:
    texts, words, batch_size = size
    train, validation = _dataset(texts, words, seed=0), _dataset(texts // 9, words, seed=1)
    seconds: dict[str, list[float]] = {"one": [], "several": []}
    parts: dict[str, float] = {"exchange": 0.0, "embedding": 0.0}
    for number in range(rounds + 1):
        one = Context().run(_epoch_seconds, train, validation, batch_size)  # without the group
        with _timed(parts):
            several = _epoch_seconds(train, validation, batch_size)
        if number:
            seconds["one"].append(one)
            seconds["several"].append(several)
        else:
            parts = dict.fromkeys(parts, 0.0)
    steps = rounds * -(-texts // batch_size)
    details = {
        "texts": texts,
        "processes": PROCESSES,
        "step_ms": round(1e3 * sum(seconds["several"]) / steps, 3),
        **{f"{part}_ms": round(1e3 * total / steps, 3) for part, total in parts.items()},
    }
    ratios = [a / b for a, b in zip(seconds["several"], seconds["one"], strict=True)]
    sides = (seconds["several"], seconds["one"])
    return Comparison.of_ratios(f"epoch, {name}, 1 process", ratios, sides, "s", details=details)


def _dataset(texts: int, words: int, *, seed: int) -> EncodedDataset:
    """Draw token ids with Zipf's frequencies and lengths around ``words``."""
    draw = np.random.default_rng(seed)
    frequencies = 1 / np.arange(1, VOCABULARY - 1)
    lengths = draw.integers(words // 2, 3 * words // 2 + 1, texts)
    ids = draw.choice(VOCABULARY - 2, lengths.sum(), p=frequencies / frequencies.sum()) + 2
    offsets = np.concatenate([[0], lengths.cumsum()])
    return EncodedDataset(TokenIds(ids.astype(np.int32), offsets), draw.integers(0, 4, texts))


def _epoch_seconds(train: EncodedDataset, validation: EncodedDataset, batch_size: int) -> float:
    recipe = load_recipe("default").with_values(
        {"training.epochs": 1, "training.batch_size": batch_size}
    )
    torch.manual_seed(0)
    network = build_network(
        recipe.model, vocabulary=VOCABULARY, width=recipe.text.vector_width, classes=4
    )
    state = fit(network, train, validation, LoopSettings(recipe.model, recipe.training, 0, CPU))
    return state.history[0].seconds


@contextmanager
def _timed(parts: dict[str, float]) -> Iterator[None]:
    """Add up the seconds that process 0 spends on exchanging gradients and on embedding rows."""
    originals = [
        (ProcessGroup, "sum_joined", "exchange"),
        (LazyAdamW, "load_rows", "embedding"),
        (LazyAdamW, "step", "embedding"),
    ]
    functions = [getattr(owner, name) for owner, name, _ in originals]
    for (owner, name, part), function in zip(originals, functions, strict=True):
        setattr(owner, name, _timing(function, parts, part))
    try:
        yield
    finally:
        for (owner, name, _), function in zip(originals, functions, strict=True):
            setattr(owner, name, function)


def _timing(function: Callable[..., Any], parts: dict[str, float], part: str) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            parts[part] += time.perf_counter() - start

    return timed
