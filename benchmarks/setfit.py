"""SetFit on MiniLM, for comparison with few labels (Tunstall et al. 2022), without its package.

The encoder is fine-tuned on pairs of labelled texts, whose embeddings should have the cosine
similarity 1 if their labels are equal and 0 if not; a logistic regression on the embeddings then
learns the labels. Settings as in the package setfit 0.7: 20 pairs of each kind per text, one epoch
of 16 pairs per mini-batch, AdamW with a learning rate of 2e-5 and 10 % warm-up.
Shapes: n texts, D encoder width, C classes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from lamatext.data.text_encoder import SubwordEncoder
from lamatext.data.token_ids import TokenIds, batches_by_length
from lamatext.nn.pretrained import PretrainedNetwork, load_pretrained

PAIRS = 20  # of each kind per text
PAIRS_PER_BATCH = 16
LEARNING_RATE = 2e-5
WARM_UP = 0.1  # of all steps
MAX_WORDS = 256  # subwords of a text
BATCH_SUBWORDS = 32_768  # subwords, padding included, that are embedded at once

Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]


class SetFit:
    """MiniLM, fine-tuned on pairs of texts, with a logistic regression on its embeddings."""

    def __init__(self, *, seed: int, device: str) -> None:
        torch.manual_seed(seed)
        self._generator = np.random.default_rng(seed)
        self._device = torch.device(device)
        loaded = load_pretrained("minilm", classes=2)
        self._network: PretrainedNetwork = loaded.network.to(self._device)
        self._encoder = SubwordEncoder.from_json(loaded.tokenizer, MAX_WORDS)
        self._head = LogisticRegression(max_iter=1_000)

    def fit(self, texts: Sequence[str], labels: NDArray[np.int64]) -> None:
        """Fine-tune the encoder on pairs of texts, then fit the logistic regression."""
        rows = self._encoder.encode(texts)
        self._train(rows, draw_pairs(labels, self._generator))
        self._head.fit(self._embed(rows), labels)

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Predict class probabilities with SetFit, (n, C)."""
        rows = self._encoder.encode(texts)
        return np.asarray(self._head.predict_proba(self._embed(rows)), np.float64)

    def _train(self, rows: TokenIds, pairs: Pairs) -> None:
        optimizer = torch.optim.AdamW(self._network.encoder.parameters(), LEARNING_RATE)
        steps = -(-len(pairs[0]) // PAIRS_PER_BATCH)
        warm_up = max(1, round(WARM_UP * steps))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm_up, (steps - step) / (steps - warm_up))
        )
        self._network.train()
        for start in range(0, len(pairs[0]), PAIRS_PER_BATCH):
            first, second, target = (part[start : start + PAIRS_PER_BATCH] for part in pairs)
            embedded = self._embed_batch(rows, np.concatenate([first, second]))
            similarity = (embedded[: len(first)] * embedded[len(first) :]).sum(dim=1)
            loss = F.mse_loss(similarity, torch.from_numpy(target).to(self._device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()

    def _embed_batch(self, rows: TokenIds, batch: NDArray[np.int64]) -> torch.Tensor:
        ids, lengths = rows.pad(batch)
        output = self._network(torch.from_numpy(ids).to(self._device), torch.from_numpy(lengths))
        return F.normalize(output.embedding[:, 0], dim=1)  # (B, D)

    def _embed(self, rows: TokenIds) -> NDArray[np.float32]:
        self._network.eval()
        batches = batches_by_length(rows.lengths, max_words=BATCH_SUBWORDS)
        with torch.inference_mode():
            parts = [self._embed_batch(rows, batch).cpu().numpy() for batch in batches]
        embeddings: NDArray[np.float32] = np.concatenate(parts)[np.argsort(np.concatenate(batches))]
        return embeddings  # (n, D)


def draw_pairs(labels: NDArray[np.int64], generator: np.random.Generator) -> Pairs:
    """Draw the pairs of texts that SetFit learns from, in random order.

    Returns:
        The first and the second text of each pair, and the similarity that they should have.
    """
    pairs = np.array([pair for _ in range(PAIRS) for pair in _pairs_of_each(labels, generator)])
    generator.shuffle(pairs)
    target = (labels[pairs[:, 0]] == labels[pairs[:, 1]]).astype(np.float32)
    return pairs[:, 0], pairs[:, 1], target


def _pairs_of_each(
    labels: NDArray[np.int64], generator: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Yield for each text one pair with a text of the same label and one with another label."""
    for text, label in enumerate(labels):
        yield text, int(generator.choice(np.flatnonzero(labels == label)))
        yield text, int(generator.choice(np.flatnonzero(labels != label)))
