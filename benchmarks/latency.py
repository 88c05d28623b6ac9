"""Latency of one text of 200 words on one thread, and of the first answer of a new process."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.comparison import Comparison, Seconds, time_alternating
from benchmarks.plain_pytorch import plain_pytorch
from benchmarks.untrained_models import load_eager, save_untrained
from lamatext.data.tokenizer import WordTokenizer
from lamatext.outliers import STEPS, ValidationStatistics
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import Predictor
from paper.official_datasets import load_paper_dataset

REPEATS = 10  # predictions per round; their median latency counts


def measure(
    source: str = "imdb", *, texts: int = 3000, words: int = 200, rounds: int = 30, starts: int = 7
) -> list[Comparison]:
    """Compare latencies: ``lama-ctx`` and the default recipe with eager PyTorch; cold start."""
    dataset = load_paper_dataset(source)
    sample = dataset.take(np.random.default_rng(0).permutation(len(dataset))[:texts])
    text = text_of(words, sample.texts.to_pylist())
    with tempfile.TemporaryDirectory() as folder:
        lama = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
        default = load_recipe("default").with_values({"ngrams.characters": False})
        lama_folder = save_untrained(Path(folder) / "lama-ctx", lama, sample)
        default_folder = save_untrained(Path(folder) / "default", default, sample)
        predictors = {
            "lama-ctx": Predictor.load(lama_folder),
            "default": Predictor.load(default_folder),
            "eager lama-ctx": load_eager(lama_folder),
            "eager default": load_eager(default_folder),
        }
        with plain_pytorch(1):
            seconds = median_latencies(predictors, text, rounds)
            outlier = _outlier_score(predictors["default"], text, rounds)
        return [
            Comparison.speedup(
                "one text, eager torch", seconds["lama-ctx"], seconds["eager lama-ctx"], words=words
            ),
            Comparison.speedup(
                "default recipe, eager torch", seconds["default"], seconds["eager default"]
            ),
            Comparison.slowdown(
                "default recipe, lama-ctx", seconds["default"], seconds["lama-ctx"]
            ),
            outlier,
            _cold_start(lama_folder, starts),
        ]


def text_of(words: int, texts: list[str]) -> str:
    """Join texts until they have ``words`` words and cut there: the text to time."""
    spans, joined = [], ""
    for text in texts:
        joined += f"{text} "
        spans = WordTokenizer().spans(joined)
        if len(spans) >= words:
            break
    return joined[: spans[words - 1][1]]


def median_latencies(
    predictors: Mapping[str, Predictor], text: str, rounds: int
) -> dict[str, Seconds]:
    """Return each predictor's median latency per round, in alternation after a warm-up round."""
    seconds: dict[str, Seconds] = {name: [] for name in predictors}
    for number in range(rounds + 1):
        for name, predictor in predictors.items():
            times = []
            for _ in range(REPEATS):
                start = perf_counter()
                predictor.predict([text])
                times.append(perf_counter() - start)
            if number:
                seconds[name].append(median(times))
    return seconds


def _outlier_score(predictor: Predictor, text: str, rounds: int) -> Comparison:
    """Compare the latency of a prediction with an outlier score with that of one without."""
    statistics = ValidationStatistics(1, 1, 0, (1,), tuple(np.linspace(0, 1, STEPS + 1).tolist()))
    predictor = replace(predictor, validation=statistics)
    calls = {"with": predictor.assess, "without": predictor.predict_proba}

    seconds: dict[str, Seconds] = {name: [] for name in calls}
    for number in range(rounds + 1):
        times: dict[str, Seconds] = {name: [] for name in calls}
        for _ in range(REPEATS):
            for name, call in calls.items():
                start = perf_counter()
                call([text])
                times[name].append(perf_counter() - start)
        for name in calls if number else ():
            seconds[name].append(median(times[name]))
    return Comparison.slowdown("with outlier score, without", seconds["with"], seconds["without"])


def _cold_start(folder: Path, rounds: int) -> Comparison:
    """Compare the latency of a new ``lamatext predict`` process with that of ``import torch``."""

    def process(*arguments: str) -> Callable[[], object]:
        command = [sys.executable, *arguments]
        return lambda: subprocess.run(command, check=True, capture_output=True)

    ask = ("-m", "lamatext", "predict", str(folder), "--text", "a thoughtful and moving film")
    contestants = {"ours": process(*ask), "torch": process("-c", "import torch")}
    seconds = time_alternating(contestants, rounds)
    return Comparison.slowdown("cold start, import torch", seconds["ours"], seconds["torch"])
