"""A training step of ``lama-ctx`` on real batches, against its plain PyTorch twin.

The twin is the same network on packed ``nn.GRU`` with torch's own SGD, at the number of threads
that serves it best; batches are made the same way for both, and are part of the time.
"""

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch.optim import SGD, Optimizer

from benchmarks import encoder
from benchmarks.figures import Figure, in_turns
from benchmarks.plain import SWITCHES, best_threads, plain_torch
from benchmarks.shares import shares
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load
from lamatext.data.token_ids import Indices
from lamatext.nn.network import Network
from lamatext.progress import SILENT
from lamatext.recipes import load_recipe
from lamatext.settings import Recipe
from lamatext.training.batching import Examples, bucketed
from lamatext.training.cpu_threads import fitting_threads
from lamatext.training.lazy_sgd import AllVectors, word_vectors
from lamatext.training.optimizers import make_optimizer
from lamatext.training.preparation import Texts, joined, prepare_words
from lamatext.training.training_step import Plan, batch_of, step

CPU = torch.device("cpu")
PROFILED = 6  # batches whose time is told by part


@dataclass(frozen=True, slots=True)
class Task:
    """What both sides train, and on which batches."""

    network: Network
    examples: Examples
    plan: Plan
    batches: list[Indices]


@dataclass(frozen=True, slots=True)
class Side:
    """A network, and what trains it on some batches."""

    network: Network
    run: Callable[[Sequence[Indices]], None]


def figures(
    sources: Sequence[str] = ("r8", "imdb"),
    *,
    turns: int = 5,
    batches: int = 12,
    shape: encoder.Shape | None = None,
) -> list[Figure]:
    """The encoder alone, and the whole step on each data set."""
    found = encoder.figures(shape or encoder.Shape(), turns=turns)
    return found + [_whole_step(source, turns, batches) for source in sources]


def _whole_step(source: str, turns: int, batches: int) -> Figure:
    given = task(source, batches)
    ours, twin = our_side(given).run, plain_side(given).run
    threads = best_threads(lambda: twin(given.batches[:1]))

    def plain() -> None:
        with plain_torch(threads):
            twin(given.batches)

    seconds = in_turns({"ours": lambda: ours(given.batches), "plain": plain}, turns)
    each = {name: [total / batches for total in totals] for name, totals in seconds.items()}
    words = np.concatenate([given.examples.rows.lengths[rows] for rows in given.batches]).sum()
    return Figure.faster(
        f"step, {source}",
        each["ours"],
        each["plain"],
        words=int(words) // batches,
        vocabulary=given.network.embedding.num_embeddings,
        baseline_threads=threads,
        parts_before=_parts(given, encoder_alone_side(given), "plain"),
        parts_now=_parts(given, our_side(given)),
    )


def _parts(given: Task, side: Side, attention: str = "") -> dict[str, float]:
    """Milliseconds of a step by part, on one thread."""
    with plain_torch(1):
        os.environ.update({SWITCHES[0]: "", SWITCHES[1]: attention})
        return shares(lambda: side.run(given.batches[:PROFILED]), len(given.batches[:PROFILED]))


def task(source: str, batches: int) -> Task:
    """Real texts by the paper's recipe; word vectors and words' bounds cost no step anything."""
    recipe = load_recipe("paper/lama-ctx").with_values(
        {"text.word_vectors": "random", "text.tokenizer": "words"}
    )
    return _task(source, recipe, batches)


def _task(source: str, recipe: Recipe, count: int) -> Task:
    corpus = load(source)
    encoder = LabelEncoder.fit(corpus.require_labels())
    names, labels = encoder.names, encoder.encode(corpus.require_labels())
    split = joined(Texts(corpus.texts, labels), None, recipe)
    start = prepare_words(split, recipe, len(names), SILENT)
    assert isinstance(start.network, Network)
    examples = Examples(start.rows.take(split.train), labels[split.train])
    batches = bucketed(
        examples.rows.lengths, batch=int(recipe.training.batch_size), seed=0, epoch=1
    )
    plan = Plan(recipe.model, recipe.training, 0, CPU)
    return Task(start.network.train(), examples, plan, batches[:count])


def our_side(given: Task) -> Side:
    """The steps as ``fit`` makes them."""
    network, settings = deepcopy(given.network), given.plan.training
    optimizer = make_optimizer(network, settings)
    vectors = word_vectors(network, optimizer, settings)

    def run(batches: Sequence[Indices]) -> None:
        with fitting_threads(network), vectors.epoch(settings.learning_rate, len(batches)):
            for rows in batches:
                batch = batch_of(given.examples, rows, CPU, vectors)
                step(network, optimizer, given.plan, batch, settings.learning_rate)
                vectors.step()

    return Side(network, run)


def plain_side(given: Task) -> Side:
    """The same steps by torch alone."""
    network, settings = deepcopy(given.network), given.plan.training
    optimizer = SGD(
        network.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )

    return _dense(given, network, optimizer)


def encoder_alone_side(given: Task) -> Side:
    """With the kernel of the encoder, and all else as it was before it was profiled."""
    network = deepcopy(given.network)
    return _dense(given, network, make_optimizer(network, given.plan.training))


def _dense(given: Task, network: Network, optimizer: Optimizer) -> Side:
    def run(batches: Sequence[Indices]) -> None:
        for rows in batches:
            batch = batch_of(given.examples, rows, CPU, AllVectors())
            step(network, optimizer, given.plan, batch, given.plan.training.learning_rate)

    return Side(network, run)
