"""Contributions of words to the logits of a text, computed from attention or by occlusion.

Networks with attention: the classifier head (the network's last layers) is piecewise linear, so at
the text embedding S the logit of class c equals Σⱼ sⱼ·gⱼ plus a constant, with gⱼ = ∂logit_c/∂sⱼ.
Head j of the attention computes sⱼ = Σₜ αⱼₜ hₜ, so word t contributes Σⱼ αⱼₜ hₜ·gⱼ. The
contributions of all words and one constant, the base, add up to the logit exactly.

Other networks: by occlusion, the contribution is the change of the logit when a word is left out.
Shapes: T words, D state width, M heads, K hidden units of the classifier, C classes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import UNK, Ids
from lamatext.errors import ModelError

Floats = NDArray[np.float32]

LogitsOf = Callable[[list[Ids]], Floats]  # n texts → (n, C)

MAX_OCCLUSIONS = 256  # model evaluations per text
MAX_OCCLUSIONS_OF = {"te": 64, "bert": 64}  # Transformers are about 100 times slower
BATCH_WORDS = 1 << 16  # approximate number of words in one call of the model


@dataclass(frozen=True, slots=True)
class ClassifierHead:
    """Weights of the classifier head, which maps a text embedding to class logits.

    For a flattened text embedding s, logits = W₂ relu(W₁ s + b₁) + b₂.

    Without a hidden layer W₁ and b₁ are None, and logits = W₂ s + b₂.
    """

    w1: Floats | None  # (K, M*D)
    b1: Floats | None  # (K,)
    w2: Floats  # (C, K), or (C, M*D)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[np.floating]]) -> Self:
        """Create the classifier head from the named weight tensors of a network."""
        names = ["classifier.0.weight", "classifier.0.bias", "classifier.3.weight"]
        if "classifier.1.weight" in tensors:  # no hidden layer
            names = ["classifier.1.weight"]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelError(f"the model's weights lack {', '.join(missing)}. Save it again.")
        arrays = [np.asarray(tensors[name], dtype=np.float32) for name in names]
        return cls(*arrays) if len(arrays) == 3 else cls(None, None, *arrays)

    @property
    def is_zero(self) -> bool:
        """Whether the last layer's weights are 0, so that the logits do not depend on the text."""
        return not self.w2.any()

    def gradient(self, embedding: Floats) -> Floats:
        """Return the gradient of the classifier head's logits with respect to the embedding.

        The embedding has shape (M, D), the gradient (C, M, D).

        The head is piecewise linear, so the gradient is exact for the whole piece that the
        embedding lies on.
        """
        weights = self.w2
        if self.w1 is not None and self.b1 is not None:
            active = self.w1 @ embedding.ravel() + self.b1 > 0  # (K,)
            weights = (self.w2 * active) @ self.w1  # (C, M*D)
        return weights.reshape(-1, *embedding.shape)


class Contributions(NamedTuple):
    """Contributions of each word to each class logit, and the remainder of the logit (``base``)."""

    contributions: Floats  # (C, T)
    base: Floats  # (C,)


def attention_contributions(
    head: ClassifierHead, *, logits: Floats, embedding: Floats, weights: Floats, states: Floats
) -> Contributions:
    """Decompose the logits of one text into word contributions and a constant base per class.

    Used for networks with attention.

    Args:
        head: the classifier head of the network.
        logits: (C,).
        embedding: the text embedding, (M, D).
        weights: attention weight of each word in each head, (M, T).
        states: encoder state of each word, (T, D).
    """
    gradient = head.gradient(embedding)  # (C, M, D)
    contributions = np.zeros((len(logits), len(states)), dtype=np.float32)  # (C, T)
    for j, head_weights in enumerate(weights):
        contributions += (gradient[:, j] @ states.T) * head_weights
    return Contributions(contributions, logits - contributions.sum(axis=1))


def max_occlusions(model: str) -> int:
    """Return the maximum number of occlusions per text, which is lower for slow networks."""
    return MAX_OCCLUSIONS_OF.get(model, MAX_OCCLUSIONS)


def occlusion_window(words: int, limit: int = MAX_OCCLUSIONS) -> int:
    """Return how many consecutive words each occlusion removes from a text.

    It is 1 for up to ``limit`` words. Occluding single words costs T² words in total. In a longer
    text, windows of several words are therefore left out, and the words of a window share equally
    in the change of the logit.
    """
    return -(-words // limit)


def occlusion(ids: Ids, logits_of: LogitsOf, *, limit: int = MAX_OCCLUSIONS) -> Contributions:
    """Compute word contributions by occlusion: the drop in each logit when a word is removed.

    The contribution of word t to class c is logit_c(text) − logit_c(text without word t).
    """
    window = occlusion_window(len(ids), limit)
    starts = np.arange(0, len(ids), window)
    versions = [ids, *(without(ids, slice(start, start + window)) for start in starts)]
    logits = np.concatenate([logits_of(batch) for batch in batches(versions)])
    changes = (logits[0] - logits[1:]).T  # (C, windows)
    sizes = np.diff(starts, append=len(ids))
    contributions = np.repeat(changes / sizes, sizes, axis=1).astype(np.float32)  # (C, T)
    return Contributions(contributions, logits[0] - contributions.sum(axis=1))


def without(ids: Ids, words: slice | np.ndarray[tuple[int], np.dtype[np.integer]]) -> Ids:
    """Remove occluded words from a text; a text without words becomes one unknown word."""
    rest = np.delete(ids, words)
    return rest if len(rest) else np.array([UNK], dtype=np.int32)


def batches(texts: list[Ids], words: int = BATCH_WORDS) -> Iterator[list[Ids]]:
    """Group occluded texts into batches of up to ``words`` words each, including padding."""
    batch: list[Ids] = []
    longest = 0
    for text in texts:
        longest = max(longest, len(text))
        if batch and (len(batch) + 1) * longest > words:
            yield batch
            batch, longest = [], len(text)
        batch.append(text)
    if batch:
        yield batch
