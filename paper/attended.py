"""What a trained network looks at: the weights of single words, and the top words of a class.

A word's weight is the mean over the heads, times the number of words in its text: 1 is the share
every word would have if the attention were a plain mean.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lamatext.data.token_ids import batches_by_length
from paper.prepared import Prepared
from paper.records import Record, Value

if TYPE_CHECKING:
    from paper.trial import Part

WORDS = ("amazing", "happy", "recommend", "recommended", "poor", "terrible", "worst")
OFTEN = 10  # a top word occurs at least so often in the class's test texts
TOP = 20
MOST = 400  # weights kept of a word and a rating

Make = Callable[[str, Value], Record]


def attended(
    make: Make, network: nn.Module, part: "Part", data: Prepared, device: torch.device
) -> list[Record]:
    """Records of the top words per class, and of the weights of the paper's words by rating."""
    ids, weights, labels = _word_weights(network, part, data, device)
    records = []
    for number, label in enumerate(data.classes):
        here = labels == number
        top = _top(ids[here], weights[here], part.vocabulary.words)
        records.append(make(f"top words of {label}", top))
        for word in WORDS:
            row = part.vocabulary.ids.get(word)
            if row is None:
                continue
            found = weights[here & (ids == row)][:MOST]
            values: Value = [round(float(weight), 4) for weight in found]
            records.append(replace(make(f"{word} in {label}", values), experiment="word-weights"))
    return records


def _top(ids: NDArray[np.int32], weights: NDArray[np.float32], words: tuple[str, ...]) -> list[str]:
    """The words of highest mean weight among those that occur often enough."""
    counts = np.bincount(ids, minlength=len(words))
    means = np.bincount(ids, weights, minlength=len(words)) / np.maximum(counts, 1)
    ranked = np.argsort(-np.where(counts >= OFTEN, means, -1), kind="stable")[:TOP]
    return [words[row] for row in ranked if counts[row] >= OFTEN]


def _word_weights(
    network: nn.Module, part: "Part", data: Prepared, device: torch.device
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """Of every word of the test texts: its id, its weight, its text's class."""
    test = np.arange(data.trained, len(data.labels))
    rows = part.rows.take(test)
    ids, weights, labels = [], [], []
    network.eval()
    with torch.inference_mode():
        for batch in batches_by_length(rows.lengths, max_words=16_384):
            padded, lengths = rows.pad(batch)
            tensor = torch.from_numpy(padded).to(device)
            pooled = network(tensor, torch.from_numpy(lengths)).weights.mean(1).cpu().numpy()
            mask = np.arange(padded.shape[1]) < lengths[:, None]
            ids.append(padded[mask])
            weights.append((pooled * lengths[:, None])[mask])
            labels.append(np.repeat(data.labels[test[batch]], lengths))
    return np.concatenate(ids), np.concatenate(weights), np.concatenate(labels)
