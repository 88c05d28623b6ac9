"""Run time: seconds per epoch of LE and TE by text length, and how attention layers scale."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import log
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lamatext.data.token_ids import TokenIds
from lamatext.nn.attention import LowRankAttention, StructuredAttention
from lamatext.nn.network import build_network, count_parameters
from lamatext.nn.pretrained import rebuild
from lamatext.recipes import load_recipe
from lamatext.settings import Recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.cuda_graphs import SWITCH as STEPS_SWITCH
from lamatext.training.loop import LoopSettings, fit
from paper.datasets import TokenizedDataset
from paper.markdown import MISSING, markdown_table, system_title
from paper.records import Record, Records
from paper.training_run import TF32_MODELS, TrainingRun, describe_device, encode

LENGTHS = (50, 100, 150, 200, 250)
PASSES = 5
TIMED_TEXTS = 1_600  # the seconds of an epoch are extrapolated from these
TIMED_MODELS = ("lama-encoder", "te")
ATTENTION_SWITCH = "LAMATEXT_ATTENTION"  # environment variable: "plain" disables the kernels
HOUR_MODELS = ("lama-ctx", "bert")
HOUR_TEXTS = 1_600  # the hours of an epoch are extrapolated from these
YELP_POLARITY = {"texts": 560_000, "words": 137}  # size of the paper's example
PUBLISHED_HOURS = {"lama-ctx": 1 / 3, "bert": 12.5}  # on a P100; of LAMA for all of its training


def time_epochs(
    records: Records,
    data: TokenizedDataset,
    device: torch.device,
    *,
    lengths: Sequence[int] = LENGTHS,
    texts: int = TIMED_TEXTS,
) -> None:
    """Record the seconds per epoch of LE and TE on texts cut to each length.

    Both are timed as plain PyTorch modules: without our attention kernel and without CUDA graphs,
    which LE could use and TE could not.
    """
    for words in lengths:
        for model in TIMED_MODELS:
            settings: dict[str, object] = {"text.max_words": words, "kernels": "plain"}
            if device.type == "cpu":
                settings["on"] = "cpu"
            waiting = Record(
                "runtime",
                data.name,
                model,
                "seconds per epoch",
                0.0,
                device=describe_device(device),
                config=settings,
            )
            if records.has(waiting.key):
                continue
            with _plain_pytorch():
                passes, parameters = _time_passes(data, model, words, device, texts)
            timed = replace(waiting, value=passes, parameters=parameters)
            records.add([timed.with_provenance()])


def _time_passes(
    data: TokenizedDataset, model: str, words: int, device: torch.device, texts: int
) -> tuple[list[float], int]:
    """Return the seconds of some training epochs after a warm-up, and the parameter count."""
    settings = (("text.max_words", words), ("training.epochs", PASSES + 1))
    run = TrainingRun("runtime", data.name, model, settings=settings)
    recipe, encoded = run.recipe, encode(run, data)
    network = build_network(
        recipe.model,
        vocabulary=len(encoded.vocabulary),
        width=recipe.text.vector_width,
        classes=len(data.classes),
    )
    rows = np.random.default_rng(0).permutation(encoded.split.train)[:texts]
    one_row = encoded.split.validation[:1]
    torch.backends.cuda.matmul.allow_tf32 = False
    state = fit(
        network,
        EncodedDataset(encoded.token_ids.take(rows), data.labels[rows]),
        EncodedDataset(encoded.token_ids.take(one_row), data.labels[one_row]),
        LoopSettings(recipe.model, recipe.training, 0, device),
    )
    scale = len(encoded.split.train) / len(rows)
    return (
        [round(epoch.seconds * scale, 4) for epoch in state.history[1:]],
        sum(count_parameters(network).values()),
    )


def epoch_seconds(records: Records) -> dict[tuple[str, str, str, int], float]:
    """Return the mean seconds per epoch by data set, device, model and text length."""
    return {
        (r.dataset, r.device, r.model, int(str(r.config["text.max_words"]))): float(
            np.mean(np.array(r.value, float))
        )
        for r in records.of("runtime")
        if "text.max_words" in r.config
    }


@contextmanager
def _plain_pytorch() -> Iterator[None]:
    """Switch off our attention kernel and CUDA graphs while a run time is measured."""
    before = {name: os.environ.get(name) for name in (ATTENTION_SWITCH, STEPS_SWITCH)}
    os.environ.update(dict.fromkeys(before, "plain"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def runtime_table(records: Records) -> str:
    """Format the seconds per epoch by text length: the mean of all passes."""
    seconds = epoch_seconds(records)
    lengths = sorted({words for *_, words in seconds})
    rows = []
    for dataset, device, model in dict.fromkeys(key[:3] for key in seconds):
        times = [seconds.get((dataset, device, model, words)) for words in lengths]
        cells = [MISSING if value is None else f"{value:.2f}" for value in times]
        rows.append([f"{dataset}, {system_title(model)}, {device}", *cells])
    return markdown_table(("seconds per epoch", *(f"{words} words" for words in lengths)), rows)


def time_hours(records: Records, device: torch.device, *, texts: int = HOUR_TEXTS) -> None:
    """Record the hours that an epoch on as many texts as Yelp-P takes for LAMA+ctx and BERT-base.

    The texts are random tokens of the paper's mean length, and BERT-base has random weights, which
    does not change the time. Real texts have more subwords than words: BERT takes longer on them.
    """
    for model in HOUR_MODELS:
        waiting = Record(
            "runtime",
            "yelp-polarity",
            model,
            "hours per epoch",
            0.0,
            device=describe_device(device, model),
            config={"texts": texts},
        )
        if records.has(waiting.key):
            continue
        torch.backends.cuda.matmul.allow_tf32 = model in TF32_MODELS
        network, recipe = _build_for_hours(model)
        data = _made_up_texts(texts)
        settings = LoopSettings(recipe.model, recipe.training, 0, device)
        state = fit(network, data, data.take(np.arange(1)), settings)
        hours = state.history[-1].seconds / texts * YELP_POLARITY["texts"] / 3600
        parameters = sum(parameter.numel() for parameter in network.parameters())
        timed = replace(waiting, value=round(hours, 4), parameters=parameters)
        records.add([timed.with_provenance()])


def _build_for_hours(model: str) -> tuple[nn.Module, Recipe]:
    two_epochs = {"training.epochs": 2, "training.patience": 2}  # the first warms up
    recipe = load_recipe(f"paper/{model}").with_values(two_epochs)
    if model == "bert":
        config = {"model_type": "bert"}  # the defaults of transformers are BERT-base
        return rebuild({"config": config, "pooled": "pooler", "dropout": 0.1}, 2), recipe
    width = recipe.text.vector_width
    return build_network(recipe.model, vocabulary=30_000, width=width, classes=2), recipe


def _made_up_texts(texts: int) -> EncodedDataset:
    """Return random token ids with the mean length of Yelp-P's reviews."""
    generator, words = np.random.default_rng(0), YELP_POLARITY["words"]
    lengths = np.minimum(generator.geometric(1 / words, texts) + 10, 500)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = generator.integers(2, 30_000, offsets[-1]).astype(np.int32)
    return EncodedDataset(TokenIds(ids, offsets), generator.integers(0, 2, texts))


def hours_table(records: Records) -> str:
    """Format the hours of an epoch of LAMA+ctx and BERT-base next to the published ones."""
    rows = []
    for model in HOUR_MODELS:
        found = [
            r for r in records.of("runtime") if (r.model, r.metric) == (model, "hours per epoch")
        ]
        ours = f"{found[-1].number:.2f}" if found else MISSING
        device = found[-1].device if found else MISSING
        rows.append([system_title(model), ours, f"{PUBLISHED_HOURS[model]:.2f}", device])
    header = ("560,000 texts of 137 words", "hours per epoch", "paper, on a P100", "our device")
    return markdown_table(header, rows)


LayerFactory = Callable[[int, int], nn.Module]  # of width and heads

LAYERS: dict[str, LayerFactory] = {
    "LAMA, projected states": lambda width, heads: LowRankAttention(width, heads, width),
    "LAMA, encoder states": lambda width, heads: LowRankAttention(
        width, heads, width, project=False
    ),
    "SAN": lambda width, heads: StructuredAttention(width, heads, hidden=350),
    "TE self-attention": lambda width, _: _SelfAttention(width, 8),
}
FORMULAS = {
    "LAMA, projected states": "n·(m·d + d²)",
    "LAMA, encoder states": "n·m·d",
    "SAN": "n·350·(d + m)",
    "TE self-attention": "n²·d + n·d²",
}
USUAL_SIZES = {"n": 256, "m": 16, "d": 128}  # words, heads, width
SWEEPS = {
    "n": (64, 128, 256, 512, 1024, 2048),
    "m": (1, 2, 4, 8, 16, 32, 64),
    "d": (64, 128, 256, 512, 1024),
}


class _SelfAttention(nn.Module):
    """A Transformer layer's self-attention, called like the other attention layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, states: Tensor, mask: Tensor, context: Tensor) -> tuple[Tensor, None]:  # noqa: ARG002
        output, _ = self.attention(states, states, states, need_weights=True)
        return output, None


def measure_scaling(records: Records, *, repeats: int = 5, largest: int = 2048) -> None:
    """Record each attention layer's time and operations as n, m and d grow, on one CPU thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for letter, sizes in SWEEPS.items():
            for size in sizes:
                if size <= largest:
                    _measure_layers(records, {**USUAL_SIZES, letter: size}, letter, repeats)
    finally:
        torch.set_num_threads(threads)


def _measure_layers(records: Records, sizes: dict[str, int], letter: str, repeats: int) -> None:
    for name, make in LAYERS.items():
        config: dict[str, object] = {**sizes, "grows": letter}
        for metric in ("seconds", "operations"):
            waiting = Record("complexity", "", name, metric, 0.0, device="CPU", config=config)
            if records.has(waiting.key):
                continue
            layer, run_once = _layer_and_pass(make, sizes)
            value = (
                _median_seconds(run_once, repeats)
                if metric == "seconds"
                else _count_operations(run_once)
            )
            parameters = sum(parameter.numel() for parameter in layer.parameters())
            measured = replace(waiting, value=value, parameters=parameters)
            records.add([measured.with_provenance()])


def _layer_and_pass(
    make: LayerFactory, sizes: dict[str, int]
) -> tuple[nn.Module, Callable[[], None]]:
    """Return an attention layer and a function that runs it forward and backward once."""
    torch.manual_seed(0)
    layer = make(sizes["d"], sizes["m"])
    states = torch.randn(1, sizes["n"], sizes["d"], requires_grad=True)
    mask, context = torch.ones(1, sizes["n"], dtype=torch.bool), torch.randn(1, sizes["d"])
    return layer, lambda: layer(states, mask, context)[0].sum().backward()


def _count_operations(run_once: Callable[[], None]) -> float:
    """Count the operations of the layer without our kernels, which the counter cannot see."""
    with _plain_pytorch(), FlopCounterMode(display=False) as counter:
        run_once()
    return float(counter.get_total_flops())


def _median_seconds(work: Callable[[], None], repeats: int) -> float:
    """Return the median seconds of several runs after one warm-up run."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return median(times[1:])


def scaling_table(records: Records) -> str:
    """Format the exponents with which operations and time of each attention layer grow."""
    measured: dict[tuple[object, ...], float] = {
        (r.model, r.config["grows"], r.config[str(r.config["grows"])], r.metric): r.number
        for r in records.of("complexity")
    }

    def exponent(layer: str, letter: str, metric: str) -> str:
        sizes = [size for size in SWEEPS[letter] if (layer, letter, size, metric) in measured]
        if len(sizes) < 2:
            return MISSING
        small, large = (measured[layer, letter, size, metric] for size in sizes[-2:])
        return f"{log(large / small) / log(sizes[-1] / sizes[-2]):.2f}"

    rows = [
        [
            layer,
            FORMULAS[layer],
            *(
                f"{exponent(layer, letter, 'operations')} ({exponent(layer, letter, 'seconds')})"
                for letter in SWEEPS
            ),
        ]
        for layer in LAYERS
    ]
    header = ("layer", "operations", *(f"exponent in {letter}" for letter in SWEEPS))
    return markdown_table(header, rows, text_columns=2)


def projection_share(records: Records) -> float:
    """Return the share of LAMA's operations that the projection uₜ = tanh(W hₜ + b) takes."""
    operations = {
        record.model: record.number
        for record in records.of("complexity")
        if record.metric == "operations"
        and {name: record.config[name] for name in USUAL_SIZES} == USUAL_SIZES
    }
    return 1 - operations["LAMA, encoder states"] / operations["LAMA, projected states"]
