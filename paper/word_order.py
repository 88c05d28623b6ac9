"""Word order: made-up tasks that only word order solves, shuffled test texts, words after "not"."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lamatext.data.token_ids import TokenIds, batches_by_length
from lamatext.data.tokenizer import TokenizedTexts
from lamatext.training.batching import EncodedDataset
from lamatext.training.loop import predict_logits
from paper.datasets import TokenizedDataset
from paper.records import Value

TASKS = {
    "made-up-first": "which of two words comes first, anywhere in the text",
    "made-up-next": "which of two words follows a third one directly",
}
ONE, TWO, MARK = range(3)  # tokens of the made-up texts; MARK is the third word
FILLERS = 50  # different words that mean nothing
TEXTS = {"train": 1_600, "test": 400}
NEGATIONS = ("not", "n't")
NEGATED_WORDS = ("amazing", "good", "great")
REACH = 2  # a word is after "not" if "not" is at most this many words before it


def made_up_dataset(name: str) -> TokenizedDataset:
    """Make the texts of a word-order task.

    Every text has a partner of the other class with the same words, in which two words have changed
    places, and both are in the same part. A system that sees a bag of words gives both the same
    answer, so that exactly half of its answers are right.
    """
    generator = np.random.default_rng(0)
    types = ("one", "two", "three", *(f"filler{number}" for number in range(FILLERS)))
    rows: list[NDArray[np.int32]] = []
    for _ in range(sum(TEXTS.values()) // 2):
        row = generator.integers(3, len(types), generator.integers(6, 17)).astype(np.int32)
        if name == "made-up-next":
            mark = int(generator.integers(len(row) - 1))
            row[mark] = MARK
            first = mark + 1
            second = generator.choice(np.delete(np.arange(len(row)), [mark, first]))
        else:
            first, second = sorted(generator.choice(len(row), 2, replace=False))
        for one, two in ((first, second), (second, first)):
            text = row.copy()
            text[one], text[two] = ONE, TWO
            rows.append(text)
    labels = np.tile(np.array([0, 1]), len(rows) // 2)
    tokens = TokenizedTexts(types, TokenIds.from_lists(rows))
    return TokenizedDataset(name, tokens, labels, TEXTS["train"], ("one", "two"))


def shuffled_accuracy(network: nn.Module, test: EncodedDataset, device: torch.device) -> float:
    """Return the accuracy on test texts whose words are in random order."""
    generator = np.random.default_rng(0)
    rows = [generator.permutation(test.token_ids[row]) for row in range(len(test.token_ids))]
    shuffled = EncodedDataset(TokenIds.from_lists(rows), test.labels)
    return float((predict_logits(network, shuffled, device).argmax(axis=1) == test.labels).mean())


def negation_weights(
    network: nn.Module, test: EncodedDataset, words: Sequence[str], device: torch.device
) -> dict[str, Value]:
    """Return mean attention weights of example words after "not" and elsewhere, and of that "not".

    A weight is relative to 1/T, the weight that every word of the text would have if all were
    equal, averaged over the heads. The value of a word also holds how often it occurs.
    """
    id_of = {word: number for number, word in enumerate(words)}
    negations = [id_of[word] for word in NEGATIONS if word in id_of]
    examples = {word: id_of[word] for word in NEGATED_WORDS if word in id_of}
    found: dict[str, list[list[float]]] = {word: [[], [], []] for word in examples}
    network.eval()
    with torch.inference_mode():
        for batch in batches_by_length(test.token_ids.lengths, max_words=16_384):
            ids, lengths = test.token_ids.pad(batch)
            if not np.isin(ids, list(examples.values())).any():
                continue
            output = network(torch.from_numpy(ids).to(device), torch.from_numpy(lengths))
            weights = output.weights.mean(1).cpu().numpy() * lengths[:, None]  # (B, T)
            for word, number in examples.items():
                for row, place in zip(*np.nonzero(ids == number), strict=True):
                    before = ids[row, max(place - REACH, 0) : place]
                    near = np.flatnonzero(np.isin(before, negations))
                    after, elsewhere, negation = found[word]
                    (after if len(near) else elsewhere).append(float(weights[row, place]))
                    if len(near):
                        negation.append(float(weights[row, place - len(before) + near[-1]]))
    return {
        f"weight of {word}": {
            "after not": _mean(after),
            "elsewhere": _mean(elsewhere),
            "of not": _mean(negation),
            "count after not": float(len(after)),
            "count elsewhere": float(len(elsewhere)),
        }
        for word, (after, elsewhere, negation) in found.items()
        if after
    }


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 4) if values else 0.0
