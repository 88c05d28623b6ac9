"""Speed and memory of the encoders by text length: LAMA+ctx, TE, LE, lama-blocks, lama-phrases.

Untrained networks read texts of random words, all of one length. On a GPU the memory is torch's
peak, on the CPU the growth of the process's peak resident memory (Linux).
"""

import ctypes
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from lamatext.data.token_ids import FIRST_WORD, TokenIds
from lamatext.nn.network import Network, build_network, count_parameters
from lamatext.training.batching import EncodedDataset
from lamatext.training.loop import LoopSettings, fit
from paper.markdown import MISSING, markdown_table
from paper.open_directions import EQUAL_SIZES, title
from paper.records import Record, Records
from paper.training_run import TrainingRun, describe_device

EXPERIMENT, SPEED = "text-lengths", "training-speed"
TEXT_LENGTHS = (64, 256, 1_024, 4_096, 16_384, 32_000)
MODELS = tuple(EQUAL_SIZES)
WORDS_PER_BATCH = 16_384  # longer texts are a batch of their own
VOCABULARY, CLASSES = 20_000, 2
REPEATS = 3
TIMED_SECONDS = 24.0  # a run is not repeated once its repetitions took longer
MAX_SECONDS = 60.0  # a longer length is left out if this one took more
EPOCH_TEXTS, EPOCH_WORDS = 640, 256


def measure_lengths(
    records: Records, device: torch.device, *, lengths: Sequence[int] = TEXT_LENGTHS
) -> None:
    """Record time and memory of inference and of a training step for each system and length."""
    for model in MODELS:
        for task in ("inference", "training"):
            for words in lengths:
                seconds = _measure(records, model, task, words, device)
                if seconds is None or seconds > MAX_SECONDS:
                    break


def _measure(
    records: Records, model: str, task: str, words: int, device: torch.device
) -> float | None:
    """Record one system at one length; return its seconds, None if it does not fit in memory."""
    waiting = Record(
        EXPERIMENT,
        "random words",
        model,
        f"{task} microseconds per word",
        0.0,
        device=describe_device(device),
        config={"words": words, "on": device.type},
    )
    known = [record for record in records.of(EXPERIMENT) if record.key == waiting.key]
    texts = max(WORDS_PER_BATCH // words, 1)
    if records.has(waiting.key):
        return known[0].number * texts * words / 1e6
    network = make_network(model, words).to(device)
    run = _step(network, texts, words, device, training=task == "training")
    try:
        seconds, megabytes = _timed(run, device)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower():
            raise
        return None
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
    complete = replace(waiting, parameters=sum(count_parameters(network).values()))
    per_word = round(seconds * 1e6 / (texts * words), 4)
    memory = replace(complete, metric=f"{task} megabytes", value=round(megabytes, 1))
    records.add(r.with_provenance() for r in (replace(complete, value=per_word), memory))
    return seconds


def make_network(model: str, words: int) -> Network:
    """Build a system at LAMA+ctx's parameter count; a Transformer gets as many positions."""
    settings = dict(EQUAL_SIZES[model])
    if model == "te":
        settings |= {"text.max_words": words, "model.transformer_positions": words}
    recipe = TrainingRun(EXPERIMENT, "", model, settings=tuple(settings.items())).recipe
    torch.manual_seed(0)
    width = recipe.text.vector_width
    return build_network(recipe.model, vocabulary=VOCABULARY, width=width, classes=CLASSES)


def _step(
    network: Network, texts: int, words: int, device: torch.device, *, training: bool
) -> Callable[[], None]:
    """Return a function that runs the network once, forward or forward and backward."""
    ids = torch.randint(FIRST_WORD, VOCABULARY, (texts, words), device=device)
    lengths = torch.full((texts,), words)
    labels = torch.zeros(texts, dtype=torch.long, device=device)
    network.train(training)

    def run() -> None:
        if not training:
            with torch.inference_mode():
                network(ids, lengths)
            return
        network.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(network(ids, lengths).logits, labels)
        torch.autograd.backward(loss)

    return run


def _timed(run: Callable[[], None], device: torch.device) -> tuple[float, float]:
    """Return the median seconds of a run after a warm-up, and the megabytes it needs."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        _reset_peak_memory()
        before = _memory("VmRSS")
    times = []
    for _ in range(1 + REPEATS):
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
        if sum(times[1:]) > TIMED_SECONDS:
            break
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else _memory("VmHWM")
    return median(times[1:]), (peak - before) / 1e6


def _reset_peak_memory() -> None:
    """Return freed memory to the system and start a new peak of the process's memory."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _memory(field: str) -> int:
    """Return a memory field of this process (VmRSS or its peak, VmHWM) in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure_training_speed(
    records: Records, device: torch.device, *, texts: int = EPOCH_TEXTS
) -> None:
    """Record the words per second of training epochs, with all that the training loop does."""
    generator = np.random.default_rng(0)
    rows = generator.integers(FIRST_WORD, VOCABULARY, (texts, EPOCH_WORDS), dtype=np.int32)
    data = EncodedDataset(TokenIds.from_lists(rows), generator.integers(0, CLASSES, texts))
    for model in MODELS:
        waiting = Record(
            SPEED,
            "random words",
            model,
            "training words per second",
            0.0,
            device=describe_device(device),
            config={"words": EPOCH_WORDS, "on": device.type},
        )
        if records.has(waiting.key):
            continue
        epochs: tuple[tuple[str, object], ...] = (("training.epochs", 1 + REPEATS),)
        recipe = TrainingRun(SPEED, "", model, settings=(*EQUAL_SIZES[model], *epochs)).recipe
        network = make_network(model, EPOCH_WORDS)
        settings = LoopSettings(recipe.model, recipe.training, 0, device)
        history = fit(network, data, data.take(np.arange(1)), settings).history
        seconds = median(epoch.seconds for epoch in history[1:])
        speed = replace(waiting, value=round(rows.size / seconds))
        records.add([speed.with_provenance()])


def speed_table(records: Records) -> str:
    """Format words per second of training and inference, and their ratios to LAMA+ctx."""
    training = {(r.model, r.device): r.number for r in records.of(SPEED)}
    inference = {
        (r.model, r.device): 1e6 / r.number
        for r in records.of(EXPERIMENT)
        if r.config["words"] == EPOCH_WORDS and r.metric.startswith("inference micro")
    }
    devices = list(dict.fromkeys(device for _, device in (*training, *inference)))
    rows = [
        [
            title(model),
            *(
                _ratio(speeds, model, device)
                for device in devices
                for speeds in (training, inference)
            ),
        ]
        for model in MODELS
    ]
    header = [f"{task}, {device}" for device in devices for task in ("training", "inference")]
    return markdown_table(("words/s (LAMA+ctx = 1)", *header), rows)


def _ratio(speeds: dict[tuple[str, str], float], model: str, device: str) -> str:
    speed, base = speeds.get((model, device)), speeds.get(("lama-ctx", device))
    if speed is None or base is None:
        return MISSING
    return f"{speed:,.0f} ({speed / base:.2f})"


def lengths_table(records: Records) -> str:
    """Format time and memory of inference by text length."""
    by_key = {
        (r.device, r.model, r.metric, r.config["words"]): r.number for r in records.of(EXPERIMENT)
    }
    rows = []
    for device in dict.fromkeys(key[0] for key in by_key):
        for model in MODELS:
            row = [f"{title(model)}, {device}"]
            for words in TEXT_LENGTHS:
                time_, memory = (
                    by_key.get((device, model, f"inference {name}", words))
                    for name in ("microseconds per word", "megabytes")
                )
                missing = time_ is None or memory is None
                row.append(MISSING if missing else f"{time_:.2f} · {memory:,.0f}")
            rows.append(row)
    header = ("inference, µs per word · MB", *(f"{words:,} words" for words in TEXT_LENGTHS))
    return markdown_table(header, rows)
