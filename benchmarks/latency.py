"""One text of 200 words: predicting it on one thread, and the first answer of a new process."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.figures import Figure, Seconds, in_turns
from benchmarks.models import eager, save_untrained
from benchmarks.plain import plain_torch
from lamatext.data.sources import load
from lamatext.data.tokenizer import WordTokenizer
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import Predictor

REPEATS = 10  # predictions of one turn, whose p50 counts


def figures(
    source: str = "imdb", *, texts: int = 3000, words: int = 200, turns: int = 30, starts: int = 7
) -> list[Figure]:
    """``lama-ctx`` against eager torch, the default recipe against ``lama-ctx``, a cold start."""
    corpus = load(source)
    some = corpus.take(np.random.default_rng(0).permutation(len(corpus))[:texts])
    text = text_of(words, some.texts.to_pylist())
    with tempfile.TemporaryDirectory() as folder:
        lama = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
        default = load_recipe("default").with_values({"ngrams.characters": False})
        lama_folder = save_untrained(Path(folder) / "lama-ctx", lama, some)
        default_folder = save_untrained(Path(folder) / "default", default, some)
        ours, whole = Predictor.load(lama_folder), Predictor.load(default_folder)
        plain, plain_whole = eager(lama_folder), eager(default_folder)
        with plain_torch(1):
            contestants = {
                "ours": ours, "default": whole, "torch": plain, "torch, h=64": plain_whole,
            }  # fmt: skip
            seconds = medians(contestants, text, turns)
        lama_ms, default_ms = seconds["ours"], seconds["default"]
        return [
            Figure.faster("one text, eager torch", lama_ms, seconds["torch"], words=words),
            Figure.faster("default recipe, eager torch", default_ms, seconds["torch, h=64"]),
            _slower("default recipe, lama-ctx", default_ms, lama_ms),
            _cold_start(lama_folder, starts),
        ]


def text_of(words: int, texts: list[str]) -> str:
    """Texts end to end, cut after so many words."""
    spans, joined = [], ""
    for text in texts:
        joined += f"{text} "
        spans = WordTokenizer().spans(joined)
        if len(spans) >= words:
            break
    return joined[: spans[words - 1][1]]


def medians(contestants: Mapping[str, Predictor], text: str, turns: int) -> dict[str, Seconds]:
    """The p50 of each one's predictions in every turn; a first turn warms up."""
    seconds: dict[str, Seconds] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, predictor in contestants.items():
            times = []
            for _ in range(REPEATS):
                start = perf_counter()
                predictor.predict([text])
                times.append(perf_counter() - start)
            if turn:
                seconds[name].append(median(times))
    return seconds


def _cold_start(folder: Path, turns: int) -> Figure:
    """From the start of a process to its answer, over the time that importing torch takes."""

    def process(*arguments: str) -> Callable[[], object]:
        command = [sys.executable, *arguments]
        return lambda: subprocess.run(command, check=True, capture_output=True)

    ask = ("-m", "lamatext", "predict", str(folder), "--text", "a thoughtful and moving film")
    seconds = in_turns({"ours": process(*ask), "torch": process("-c", "import torch")}, turns)
    return _slower("cold start, import torch", seconds["ours"], seconds["torch"])


def _slower(what: str, ours: Seconds, theirs: Seconds) -> Figure:
    """How many times their time ours is: less is better."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Figure.of(what, ratios, ours, theirs, scale=1e3, unit="ms", details={})
