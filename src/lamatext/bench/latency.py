"""One text: how long predicting takes in ONNX Runtime and in eager PyTorch, on one thread."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import torch

from lamatext.config import ModelSettings, Recipe
from lamatext.data.encode import TextEncoder
from lamatext.data.tokens import WordTokenizer
from lamatext.data.vocab import Vocabulary
from lamatext.kernels.gru import SWITCH
from lamatext.nn.network import build_network
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.torch_engine import TorchEngine
from lamatext.store import SavedModel, load_predictor, save_model

WIDTH, LABELS = 100, ["no", "yes"]


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds for one text, tokenising included; the ratio's spread is over the rounds."""

    words: int
    onnx_ms: float  # median
    torch_ms: float  # median
    ratio: float  # torch over onnx, median of the rounds
    ratio_low: float  # 10th percentile
    ratio_high: float  # 90th percentile


def measure(
    model: ModelSettings | None = None,
    *,
    words: int = 200,
    vocabulary: int = 20_000,
    rounds: int = 30,
    repeats: int = 10,
) -> Latency:
    """Time both ways in turn, ``rounds`` times ``repeats`` predictions each."""
    recipe = Recipe(model=model or ModelSettings())
    encoder, text = made_up_text(words, vocabulary)
    with TemporaryDirectory() as folder, one_plain_thread():
        network = build_network(
            recipe.model, vocabulary=len(encoder.vocabulary), width=WIDTH, classes=len(LABELS)
        )
        tensors = {name: value.numpy() for name, value in network.state_dict().items()}
        save_model(folder, SavedModel(recipe, LABELS, tensors, encoder))
        ours = load_predictor(folder)
        plain = Predictor(TorchEngine(network), encoder, np.array(LABELS))
        rows = [[_median_ms(p, text, repeats) for p in (ours, plain)] for _ in range(rounds + 1)]
    times = np.array(rows[1:])  # (rounds, 2); the first round warms up
    ratios = times[:, 1] / times[:, 0]
    onnx_ms, torch_ms = np.median(times, axis=0)
    low, middle, high = np.percentile(ratios, [10, 50, 90])
    return Latency(words, *(float(x) for x in (onnx_ms, torch_ms, middle, low, high)))


def made_up_text(words: int, vocabulary: int) -> tuple[TextEncoder, str]:
    """An encoder that knows made-up words, and a text of some of them."""
    draw = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    known = {"".join(draw.choice(letters, size)) for size in draw.integers(4, 9, vocabulary)}
    encoder = TextEncoder(WordTokenizer(), Vocabulary(sorted(known)), "unknown")
    return encoder, " ".join(draw.choice(sorted(known), words))


@contextmanager
def one_plain_thread() -> Iterator[None]:
    """Torch on one thread, with its own GRU."""
    threads, switch = torch.get_num_threads(), os.environ.get(SWITCH)
    torch.set_num_threads(1)
    os.environ[SWITCH] = "plain"
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if switch is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = switch


def _median_ms(predictor: Predictor, text: str, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = perf_counter()
        predictor.predict([text])
        times.append(perf_counter() - start)
    return 1000 * float(np.median(times))
