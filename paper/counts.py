"""Counts that need no training: the data sets' statistics and the networks' parameters."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lamatext.data.sources import load_dataset
from lamatext.errors import DataError
from lamatext.nn.network import build_network, count_parameters
from lamatext.progress import SILENT
from lamatext.recipes import load_recipe
from lamatext.training.preparation import tokenize_texts
from paper.prepared import Prepared
from paper.published import PARAMETERS, STATISTICS
from paper.records import Record, Results, blank

STATISTIC_NAMES = ("classes", "train", "test", "words")
PARAMETER_HEADS = (2, 4, 8, 16, 32, 64)
PAPER_SIZES = {"model.hidden_size": 512, "model.classifier_width": 1024}


def count_sets(results: Results, datasets: tuple[str, ...]) -> list[str]:
    """Classes, texts and mean words of each set; what is not on this machine is returned."""
    missing = []
    for name in datasets:
        records = [blank("datasets", name, "", metric) for metric in STATISTIC_NAMES]
        if all(results.has(record.key) for record in records):
            continue
        try:
            values = _statistics(name)
        except DataError:
            missing.append(name)
            continue
        paper = STATISTICS.get(name, (None,) * 4)
        results.add(
            replace(record, value=value, paper=published)
            for record, value, published in zip(records, values, paper, strict=True)
        )
    return missing


def _statistics(name: str) -> tuple[float, ...]:
    train, test = load_dataset(name), load_dataset(name, split="test")
    texts = pa.chunked_array([*train.texts.chunks, *test.texts.chunks], pa.large_string())
    words = tokenize_texts(texts, load_recipe("paper").text, SILENT).rows.lengths[: len(train)]
    labels = [] if train.labels is None else train.labels.unique().to_pylist()
    return float(len(labels)), float(len(train)), float(len(test)), float(np.mean(words))


def count_all_parameters(results: Results, data: Prepared) -> None:
    """Parameters by component as the heads grow: at the paper's table's sizes and at our recipe's.

    The vocabulary is that of the whole training part.
    """
    vocabulary = len(data.tokens.types) + 2
    for model in ("lama-ctx", "te"):
        for heads in PARAMETER_HEADS:
            for sizes in ({}, PAPER_SIZES):
                for record in _components(model, heads, sizes, vocabulary, data):
                    results.add([record])


def _components(
    model: str, heads: int, sizes: dict[str, int], vocabulary: int, data: Prepared
) -> list[Record]:
    values: dict[str, object] = {"model.heads": heads, **sizes}
    recipe = load_recipe(f"paper/{model}").with_values(values)
    network = build_network(
        recipe.model,
        vocabulary=vocabulary,
        width=recipe.text.vector_width,
        classes=len(data.classes),
    )
    counts = count_parameters(network)
    published = PARAMETERS[model][heads] if sizes else None
    total = blank("parameters", data.name, model, "total", values)
    return [
        replace(total, value=float(sum(counts.values())), paper=published),
        *(replace(total, metric=part, value=float(count)) for part, count in counts.items()),
    ]
