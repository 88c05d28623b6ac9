"""Times: an epoch of LE and of TE by length of text, and how attention layers grow."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lamatext.kernels.attention_cpu import SWITCH
from lamatext.nn.attention import LowRankAttention, StructuredAttention
from lamatext.nn.network import build_network, count_parameters
from lamatext.training.batching import EncodedDataset
from lamatext.training.loop import LoopSettings, fit
from paper.prepared import Prepared
from paper.records import Results, blank
from paper.trial import Trial, device_name, part_of

LENGTHS = (50, 100, 150, 200, 250)
REPEATS = 3
TEXTS = 3_200  # timed a pass; an epoch is scaled from them


def time_epochs(
    results: Results,
    data: Prepared,
    device: torch.device,
    *,
    lengths: Sequence[int] = LENGTHS,
    texts: int = TEXTS,
) -> None:
    """Seconds an epoch of LE and TE on texts cut to each length; three passes after one to warm."""
    for model in ("lama-encoder", "te"):
        for words in lengths:
            settings: dict[str, object] = {"text.max_words": words}
            if device.type == "cpu":
                settings["on"] = "cpu"
            metric, name = "seconds per epoch", device_name(device)
            record = blank("runtime", data.name, model, metric, settings, device=name)
            if results.has(record.key):
                continue
            passes, parameters = _passes(data, model, words, device, texts)
            results.add([replace(record, value=passes, parameters=parameters)])


def _passes(
    data: Prepared, model: str, words: int, device: torch.device, texts: int
) -> tuple[list[float], int]:
    values = (("text.max_words", words), ("training.epochs", REPEATS + 1))
    recipe = Trial("runtime", data.name, model, values=values).recipe
    part = part_of(Trial("runtime", data.name, model, values=values), data)
    network = build_network(
        recipe.model,
        vocabulary=len(part.vocabulary),
        width=recipe.text.vector_width,
        classes=len(data.classes),
    )
    rows = np.random.default_rng(0).permutation(part.train)[:texts]
    examples = EncodedDataset(part.rows.take(rows), data.labels[rows])
    few = EncodedDataset(part.rows.take(part.valid[:1]), data.labels[part.valid[:1]])
    torch.backends.cuda.matmul.allow_tf32 = False
    state = fit(network, examples, few, LoopSettings(recipe.model, recipe.training, 0, device))
    scale = len(part.train) / len(rows)
    return (
        [round(epoch.seconds * scale, 4) for epoch in state.history[1:]],
        sum(count_parameters(network).values()),
    )


Layer = Callable[[int, int], nn.Module]  # of width and heads

LAYERS: dict[str, Layer] = {
    "LAMA, scores of u": lambda width, heads: LowRankAttention(width, heads, width),
    "LAMA, scores of h": lambda width, heads: LowRankAttention(width, heads, width, project=False),
    "SAN": lambda width, heads: StructuredAttention(width, heads, hidden=350),
    "TE self-attention": lambda width, _: _SelfAttention(width, 8),
}
USUAL = {"n": 256, "m": 16, "d": 128}
SWEEPS = {
    "n": (64, 128, 256, 512, 1024, 2048),
    "m": (1, 2, 4, 8, 16, 32, 64),
    "d": (64, 128, 256, 512, 1024),
}


class _SelfAttention(nn.Module):
    """The attention of a Transformer layer, with the arguments of the others."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, states: Tensor, mask: Tensor, context: Tensor) -> tuple[Tensor, None]:  # noqa: ARG002
        found, _ = self.attention(states, states, states, need_weights=True)
        return found, None


def measure_growth(results: Results, *, repeats: int = 5, largest: int = 2048) -> None:
    """Seconds and operations, forward and backward, as n, m and the width grow; one CPU thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for letter, sizes in SWEEPS.items():
            for size in sizes:
                if size <= largest:
                    _measure_layers(results, {**USUAL, letter: size}, letter, repeats)
    finally:
        torch.set_num_threads(threads)


def _measure_layers(results: Results, sizes: dict[str, int], letter: str, repeats: int) -> None:
    for name, make in LAYERS.items():
        config: dict[str, object] = {**sizes, "grows": letter}
        for metric in ("seconds", "operations"):
            record = blank("complexity", "", name, metric, config)
            if results.has(record.key):
                continue
            layer, once = _ready(make, sizes)
            value = _timed(once, repeats) if metric == "seconds" else _operations(once)
            parameters = sum(parameter.numel() for parameter in layer.parameters())
            results.add([replace(record, value=value, parameters=parameters)])


def _ready(make: Layer, sizes: dict[str, int]) -> tuple[nn.Module, Callable[[], None]]:
    """A layer of these sizes, and one pass forward and back through it."""
    torch.manual_seed(0)
    layer = make(sizes["d"], sizes["m"])
    states = torch.randn(1, sizes["n"], sizes["d"], requires_grad=True)
    mask, context = torch.ones(1, sizes["n"], dtype=torch.bool), torch.randn(1, sizes["d"])
    return layer, lambda: layer(states, mask, context)[0].sum().backward()


def _operations(once: Callable[[], None]) -> float:
    """Those of the plain layer: the counter cannot see into our kernels."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "plain"
    try:
        with FlopCounterMode(display=False) as counter:
            once()
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before
    return float(counter.get_total_flops())


def _timed(work: Callable[[], None], repeats: int) -> float:
    """The median of several times, after one that is not counted."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return median(times[1:])
