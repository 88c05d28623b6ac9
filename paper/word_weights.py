"""Attention weights of words: top words per class, and the paper's example words by star rating.

A word's weight is the mean over heads times the number of words in its text: 1 is the weight every
word would have if the attention were a plain mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lamatext.data.token_ids import batches_by_length
from lamatext.training.batching import EncodedDataset
from paper.confidence_intervals import Interval, format_interval
from paper.markdown import MISSING, dataset_heading, markdown_table
from paper.published_results import KEYWORDS
from paper.records import Record, Records, Value

EXAMPLE_WORDS = {  # the paper's words; their forms
    "amazing": ("amazing",),
    "happy": ("happy",),
    "recommend(ed)": ("recommend", "recommended"),
    "poor": ("poor",),
    "terrible": ("terrible",),
    "worst": ("worst",),
}
STARS = "12345"
MIN_COUNT = 10  # a top word occurs at least this often in the test texts of the class
TOP_WORDS = 20
SHOWN_TOP_WORDS = 10
MAX_WEIGHTS = 400  # recorded per word and rating
MIN_COMPARED = 5  # means over fewer occurrences are not compared
WITH_TEMPERATURE: dict[str, object] = {"model.initial_temperature": 8.0}

Weights = NDArray[np.float64]


def attention_records(
    make_record: Callable[[str, Value], Record],
    network: nn.Module,
    test: EncodedDataset,
    words: Sequence[str],
    classes: Sequence[str],
    device: torch.device,
) -> list[Record]:
    """Record the top words of each class and the attention weights of the example words."""
    ids, weights, labels = _word_weights(network, test, device)
    id_of = {word: index for index, word in enumerate(words)}
    records = []
    for index, label in enumerate(classes):
        in_class = labels == index
        top = _top_words(ids[in_class], weights[in_class], words)
        records.append(make_record(f"top words of {label}", top))
        for word in (form for forms in EXAMPLE_WORDS.values() for form in forms):
            if word not in id_of:
                continue
            occurrences = weights[in_class & (ids == id_of[word])][:MAX_WEIGHTS]
            values: Value = [round(float(weight), 4) for weight in occurrences]
            record = make_record(f"{word} in {label}", values)
            records.append(replace(record, experiment="word-weights"))
    return records


def _top_words(
    ids: NDArray[np.int32], weights: NDArray[np.float32], words: Sequence[str]
) -> list[str]:
    """Return the words with the highest mean attention weight among the frequent ones."""
    counts = np.bincount(ids, minlength=len(words))
    means = np.bincount(ids, weights, minlength=len(words)) / np.maximum(counts, 1)
    ranked = np.argsort(-np.where(counts >= MIN_COUNT, means, -1), kind="stable")[:TOP_WORDS]
    return [words[row] for row in ranked if counts[row] >= MIN_COUNT]


def _word_weights(
    network: nn.Module, test: EncodedDataset, device: torch.device
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """Return the id, the attention weight and the text's class of every word of the test texts."""
    ids, weights, labels = [], [], []
    network.eval()
    with torch.inference_mode():
        for batch in batches_by_length(test.token_ids.lengths, max_words=16_384):
            padded, lengths = test.token_ids.pad(batch)
            tensor = torch.from_numpy(padded).to(device)
            attention = network(tensor, torch.from_numpy(lengths)).weights  # (B, M, T)
            mean_weights = attention.mean(1).cpu().numpy()  # (B, T)
            mask = np.arange(padded.shape[1]) < lengths[:, None]
            ids.append(padded[mask])
            weights.append((mean_weights * lengths[:, None])[mask])
            labels.append(np.repeat(test.labels[batch], lengths))
    return np.concatenate(ids), np.concatenate(weights), np.concatenate(labels)


def recorded_weights(
    records: Records, word: str, stars: str, settings: dict[str, object] | None = None
) -> Weights:
    """Return the recorded weights of an example word in test reviews with these ratings."""
    metrics = {f"{form} in {star}" for form in EXAMPLE_WORDS[word] for star in stars}
    weights: list[float] = []
    for record in records.of("word-weights"):
        wanted = (record.dataset, record.changed_settings) == ("clothing", settings or {})
        if wanted and record.metric in metrics:
            weights += [float(weight) for weight in record.value]  # type: ignore[union-attr]
    return np.array(weights)


def rating_difference(records: Records, word: str) -> Interval | None:
    """Return the 95 % interval of the word's mean weight at 4–5 stars minus that at 1–2 stars."""
    low, high = (recorded_weights(records, word, stars) for stars in ("12", "45"))
    if min(len(low), len(high)) < MIN_COMPARED:
        return None
    random = np.random.default_rng(0)
    means = [random.choice(part, (2_000, len(part))).mean(axis=1) for part in (high, low)]
    first, last = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(first), float(last)


def weight_range(
    records: Records, settings: dict[str, object] | None = None
) -> tuple[float, float]:
    """Return the smallest and largest recorded attention weight of the example words."""
    weights = [recorded_weights(records, word, STARS, settings) for word in EXAMPLE_WORDS]
    everything = np.concatenate(weights)
    return float(everything.min()), float(everything.max())


def word_weights_table(records: Records) -> str:
    """Format the mean weights of the example words by star rating, with their counts."""
    rows = [
        [
            word,
            *(_weights_cell(recorded_weights(records, word, stars)) for stars in ("12", "3", "45")),
            format_interval(rating_difference(records, word), scale=1, digits=2),
        ]
        for word in EXAMPLE_WORDS
    ]
    header = ("word", "1–2 stars", "3 stars", "4–5 stars", "4–5 minus 1–2 stars")
    return markdown_table(header, rows)


def _weights_cell(weights: Weights) -> str:
    if not len(weights):
        return MISSING
    spread = f" ± {weights.std(ddof=1):.2f}" if len(weights) > 1 else ""
    return f"{weights.mean():.2f}{spread} ({len(weights)})"


def top_words_table(records: Records) -> str:
    """Format the most attended words of four classes: published, ours, ours with temperature."""
    rows = []
    for (dataset, label), published in KEYWORDS.items():
        cells = []
        for settings in ({}, WITH_TEMPERATURE):
            word_lists = [
                record.value
                for record in records.of("keywords")
                if (record.dataset, record.metric) == (dataset, f"top words of {label}")
                and record.changed_settings == settings
            ]
            words = word_lists[0] if word_lists else [MISSING]
            shown = list(words)[:SHOWN_TOP_WORDS]  # type: ignore[arg-type]
            cells.append(" ".join(str(word) for word in shown))
        rows.append([f"{dataset_heading(dataset)}: {label}", published, *cells])
    header = ("class", "paper", "ours", "ours, with temperature")
    return markdown_table(header, rows, text_columns=4)
