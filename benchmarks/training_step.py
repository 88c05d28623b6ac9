"""One training step of ``lama-ctx`` on the CPU, against the same step in plain PyTorch.

The baseline is the same network on packed ``nn.GRU`` with PyTorch's SGD, at the number of threads
that is best for it. Both sides build their batches the same way, and that time counts.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch.optim import SGD, Optimizer
from torch.profiler import ProfilerActivity, profile

from benchmarks.comparison import Comparison, time_alternating
from benchmarks.plain_pytorch import SWITCHES, best_threads, plain_pytorch
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import Split, stratified_split
from lamatext.data.token_ids import Indices
from lamatext.nn.network import Network
from lamatext.recipes import load_recipe
from lamatext.training.batching import EncodedDataset, make_batch, shuffled_batches
from lamatext.training.cpu_threads import training_threads
from lamatext.training.lazy_embedding import embedding_updates
from lamatext.training.loop import LoopSettings, make_training_step
from lamatext.training.optimizers import make_optimizer
from lamatext.training.preparation import prepare_run
from paper.official_datasets import load_paper_dataset

CPU = torch.device("cpu")
PROFILED_BATCHES = 6
# Part of a training step by substrings of PyTorch's operation names; the first match counts.
PARTS: Mapping[str, tuple[str, ...]] = {
    "encoder": ("BiGru",),
    "attention": ("CpuAttention", "tanh", "bmm", "softmax", "vector_norm"),
    "word vectors and optimizer": ("sgd", "SGD", "zero_", "fill_", "embedding", "index_select"),
    "matrix products": ("mm",),
}


@dataclass(frozen=True, slots=True)
class Task:
    """Network, examples and batches on which both sides run their training steps."""

    network: Network
    examples: EncodedDataset
    plan: LoopSettings
    batches: list[Indices]


@dataclass(frozen=True, slots=True)
class Side:
    """Network of one side, and the function that runs its training steps on some batches."""

    network: Network
    run: Callable[[Sequence[Indices]], None]


def measure(
    sources: Sequence[str] = ("r8", "imdb"), *, rounds: int = 5, batches: int = 12
) -> list[Comparison]:
    """Compare a training step with plain PyTorch on each data set."""
    return [_compare_step(source, rounds, batches) for source in sources]


def _compare_step(source: str, rounds: int, batches: int) -> Comparison:
    task = make_task(source, batches)
    ours, plain_step = our_side(task).run, plain_side(task).run
    threads = best_threads(lambda: plain_step(task.batches[:1]))

    def plain() -> None:
        with plain_pytorch(threads):
            plain_step(task.batches)

    seconds = time_alternating({"ours": lambda: ours(task.batches), "plain": plain}, rounds)
    per_step = {name: [total / batches for total in totals] for name, totals in seconds.items()}
    words = np.concatenate([task.examples.token_ids.lengths[rows] for rows in task.batches]).sum()
    return Comparison.speedup(
        f"step, {source}",
        per_step["ours"],
        per_step["plain"],
        words=int(words) // batches,
        vocabulary=task.network.embedding.num_embeddings,
        baseline_threads=threads,
        parts_before=_profile_side(task, compiled_encoder_side(task), "plain"),
        parts_now=_profile_side(task, our_side(task)),
    )


def _profile_side(task: Task, side: Side, attention: str = "") -> dict[str, float]:
    batches = task.batches[:PROFILED_BATCHES]
    with plain_pytorch(1):
        os.environ.update({SWITCHES[0]: "", SWITCHES[1]: attention})
        return profile_parts(lambda: side.run(batches), len(batches))


def profile_parts(run: Callable[[], object], steps: int) -> dict[str, float]:
    """Profile ``steps`` training steps and return the milliseconds per step of each part.

    The matrix products of the classifier and of plain attention cannot be told apart.
    """
    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    milliseconds = dict.fromkeys((*PARTS, "the rest"), 0.0)
    for event in profiler.key_averages():
        milliseconds[_part_of(event.key)] += event.self_cpu_time_total / 1e3 / steps
    return {part: round(time, 3) for part, time in milliseconds.items()}


def _part_of(operation: str) -> str:
    for part, substrings in PARTS.items():
        if any(substring in operation for substring in substrings):
            return part
    return "the rest"


def make_task(source: str, batches: int) -> Task:
    """Prepare the training steps: real texts, the paper's recipe, random word vectors.

    The tokenizer and the values of the word vectors do not change the time of a step.
    """
    recipe = load_recipe("paper/lama-ctx").with_values(
        {"text.word_vectors": "random", "text.tokenizer": "words"}
    )
    dataset = load_paper_dataset(source)
    encoder = LabelEncoder.fit(dataset.require_labels())
    labels = encoder.encode(dataset.require_labels())
    split = Split(*stratified_split(labels, (0.9, 0.1), recipe.seed))
    start = prepare_run(dataset.texts, split, recipe, classes=len(encoder.classes))
    assert isinstance(start.network, Network)
    examples = EncodedDataset(start.token_ids, labels).take(split.train)
    order = shuffled_batches(
        examples.token_ids.lengths, batch_size=int(recipe.training.batch_size), seed=0, epoch=1
    )
    plan = LoopSettings(recipe.model, recipe.training, 0, CPU)
    return Task(start.network.train(), examples, plan, order[:batches])


def our_side(task: Task) -> Side:
    """Return lamatext's training steps, as ``fit`` runs them."""
    network, settings = deepcopy(task.network), task.plan.training
    optimizer = make_optimizer(network, settings)
    embeddings = embedding_updates(network, optimizer, settings)
    step = make_training_step(network, optimizer, task.plan)

    def run(batches: Sequence[Indices]) -> None:
        with training_threads(network), embeddings.epoch([settings.learning_rate] * len(batches)):
            for rows in batches:
                batch = make_batch(task.examples, rows, CPU, embeddings.load_rows)
                step(batch, settings.learning_rate)
                embeddings.step()

    return Side(network, run)


def plain_side(task: Task) -> Side:
    """Return the same training steps in plain PyTorch with PyTorch's dense SGD."""
    network, settings = deepcopy(task.network), task.plan.training
    optimizer = SGD(
        network.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )
    return _dense_side(task, network, optimizer)


def compiled_encoder_side(task: Task) -> Side:
    """Return training steps with the compiled encoder but a dense optimizer, for the profile."""
    network = deepcopy(task.network)
    return _dense_side(task, network, make_optimizer(network, task.plan.training))


def _dense_side(task: Task, network: Network, optimizer: Optimizer) -> Side:
    step = make_training_step(network, optimizer, task.plan)

    def run(batches: Sequence[Indices]) -> None:
        for rows in batches:
            batch = make_batch(task.examples, rows, CPU)
            step(batch, task.plan.training.learning_rate)

    return Side(network, run)
