"""``python -m benchmarks estimates``: time and cost of up to 10⁹ texts, computed from the records.

Rates come from the records of other benchmarks; prices are assumptions. What follows from them is
computed, not measured. ``docs/scale.md`` shows the tables.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy_jobs import RECORDS, Folder
from lamatext.errors import percent
from paper.records import Records

SIZES = {"10⁶": 1e6, "10⁸": 1e8, "10⁹": 1e9}
CORE_PRICE, GPU_PRICE = 0.04, 3.5  # assumed dollars per hour of a rented core and GPU
CORES, CLUSTER, GPUS = 2, 100, 8
EPOCHS, BATCH = 2, 256  # of the default recipe for 10⁶ texts and more; BATCH is per GPU of a group
MR_STEPS = 200  # of an epoch on mr: 6,397 training texts in mini-batches of 32
STREAMED, STREAMED_ROWS = "10000000 rows, 20 words, 4 classes", 1e7
RAY_EFFICIENCY = 0.8  # assumed where `python -m benchmarks ray` has no record


class Rates(NamedTuple):
    """Measured rates, in texts of about 20 words per second unless stated otherwise."""

    predict: float  # on one core
    prepare: float  # tokens, vocabulary and word vectors, on one core
    ngrams: float  # counting and fitting n-grams, on one core
    epoch: float  # of training, on one core
    gpu_steps: float  # training steps per second on one GPU
    group_steps: float  # the same in a process group over NCCL
    ray: float | None  # throughput on Ray as a ratio to the plain command on the same cores
    transfer: float | None  # reading and writing rows in one process


def read_rates(folder: Path = RECORDS) -> Rates:
    """Read the rates of the estimates from the records of the benchmarks."""
    store = Records(folder)
    streamed = {r.metric: r.number for r in store.of("streaming") if r.dataset == STREAMED}
    predict = next(
        r.number
        for r in store.of("costs")
        if (r.dataset, r.model, r.metric) == ("mr", "default", "texts_per_second")
    )
    group: Any = next(
        r.value
        for r in store.of("process_accuracy")
        if (r.model, r.metric, r.config["device"]) == ("group of 1", "epoch_seconds", "cuda")
    )
    epoch = _comparisons(folder, "training_processes")["epoch, 20 words, batches of 256, 1 process"]
    gpu = _comparisons(folder, "gpu_training")["words/s at batch 32, cuDNN"]
    ray = _comparisons(folder, "ray")
    return Rates(
        predict=predict / CORES,
        prepare=STREAMED_ROWS / streamed["vocabulary_cpu_seconds"],
        ngrams=STREAMED_ROWS / streamed["ngrams_cpu_seconds"],
        epoch=epoch["details"]["texts"] / epoch["baseline"],
        gpu_steps=1e6 * gpu["ours"] / (gpu["details"]["batch"] * gpu["details"]["words"]),
        group_steps=MR_STEPS / group[-1],
        ray=ray["2 workers, plain command"]["value"] if ray else None,
        transfer=ray["plain command, no model"]["baseline"] if ray else None,
    )


def _comparisons(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    path = folder / f"{name}.json"
    return {r["metric"]: r for r in json.loads(path.read_text())} if path.is_file() else {}


class Setup(NamedTuple):
    """A machine or cluster of the estimates, with texts per second; None if it does not apply."""

    name: str
    price: float  # dollars per hour
    train: float | None
    predict: float | None
    largest: float = 1e9  # number of training texts

    def train_rate(self, texts: float) -> float | None:
        """Return the throughput of a training; None if the setup cannot train so many texts."""
        return self.train if texts <= self.largest else None


def setups(rates: Rates) -> list[Setup]:
    """Return the setups of the estimates with their computed throughputs."""
    on_ray = CLUSTER * rates.predict * (rates.ray or RAY_EFFICIENCY)
    gpu, group = BATCH * rates.gpu_steps, GPUS * BATCH * rates.group_steps
    return [
        Setup("laptop, 2 cores", 0.0, _train(rates, rates.epoch), CORES * rates.predict),
        Setup("one GPU", GPU_PRICE, _train(rates, gpu), None),
        Setup("eight GPUs", GPUS * GPU_PRICE, _train(rates, group), None, 1e8),
        Setup("Ray, 100 cores", CLUSTER * CORE_PRICE, None, min(on_ray, rates.transfer or on_ray)),
    ]


def _train(rates: Rates, epoch: float) -> float:
    """Return the throughput of a whole training from that of its epochs."""
    return 1 / (1 / rates.prepare + 1 / rates.ngrams + EPOCHS / epoch)


def estimates_table(folder: Path = RECORDS) -> str:
    """Return the tables of the estimates, with the rates they follow from, as Markdown."""
    rates = read_rates(folder)
    lines = [*_rate_lines(rates), "", *_saturation_lines(rates), ""]
    titles = [f"{verb} {size}" for verb in ("train", "predict") for size in SIZES]
    lines += [
        f"| computed | per hour, train | per hour, predict | {' | '.join(titles)} |",
        f"|---|--:|--:|{'--:|' * len(titles)}",
    ]
    for setup in setups(rates):
        cells = [
            _per_hour(setup.train),
            _per_hour(setup.predict),
            *(_cell(setup, setup.train_rate(size), size) for size in SIZES.values()),
            *(_cell(setup, setup.predict, size) for size in SIZES.values()),
        ]
        lines.append(f"| {setup.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _rate_lines(rates: Rates) -> list[str]:
    transfer = rates.transfer
    return [
        "| measured, texts of 20 words | rate | record |",
        "|---|--:|---|",
        f"| predict, one core | {rates.predict:,.0f} texts/s | `costs`, mr |",
        f"| first pass: tokens, vocabulary, word vectors, one core | {rates.prepare:,.0f} texts/s "
        "| `streaming` |",
        f"| n-grams, one core | {rates.ngrams:,.0f} texts/s | `streaming` |",
        f"| an epoch, one core | {rates.epoch:,.0f} texts/s | `training_processes` |",
        f"| steps of 32 texts of 250 words, one GPU | {rates.gpu_steps:,.0f} per s "
        "| `gpu_training` |",
        f"| steps of a group over NCCL (of one GPU) | {rates.group_steps:,.0f} "
        "per s | `process_accuracy` |",
        "| Ray, compared with the plain command on the same cores | "
        f"{f'{rates.ray:.2f}' if rates.ray else f'not measured; {RAY_EFFICIENCY} assumed'} "
        "| `ray` |",
        "| reading and writing rows without a model, one process | "
        f"{f'{transfer:,.0f} texts/s' if transfer else 'not measured'} | `ray` |",
    ]


def _saturation_lines(rates: Rates) -> list[str]:
    """Say which part of each setup saturates first."""
    gpu = BATCH * rates.gpu_steps
    laptop, one = (
        EPOCHS / epoch * _train(rates, epoch) for epoch in (rates.epoch, gpu)
    )  # shares of the time
    lines = [
        f"- On a laptop the epochs take {percent(laptop, 0)} of a training: the processor "
        "saturates first.",
        f"- With one GPU the epochs take {percent(one, 0)}; the passes on one core take the rest, "
        "and more GPUs cannot shorten them.",
    ]
    if rates.transfer is None:
        limit = "limits the number of workers; at how many was not measured."
    else:
        cores = rates.transfer / (rates.predict * (rates.ray or RAY_EFFICIENCY))
        limit = f"saturates at {cores:,.0f} cores, or earlier: it sends the rows as well."
    return [*lines, f"- On Ray the one process that reads and writes {limit}"]


def _per_hour(rate: float | None) -> str:
    return "–" if rate is None else f"{3600 * rate / 1e6:,.0f} M"


def _cell(setup: Setup, rate: float | None, size: float) -> str:
    """Format the time and the cost of one job."""
    if rate is None:
        return "–"
    hours = size / rate / 3600
    cost = f", ${_digits(hours * setup.price)}" if setup.price else ""
    value, unit = (60 * hours, "min") if hours < 1 else (hours, "h")
    if hours >= 48:
        value, unit = hours / 24, "days"
    return f"{_digits(value)} {unit}{cost}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def run(records: Folder = RECORDS) -> None:
    """Print the estimates of time and cost that follow from the records."""
    print(estimates_table(records))
