"""Occlusion: a word's contribution is the change of the logits when the word is left out.

Used for models without attention. Shapes: T words, C classes.
"""

from collections.abc import Callable, Iterator

import numpy as np

from lamatext.data.token_ids import UNK, Ids
from lamatext.explain.contributions import Contributions, Floats

LogitsOf = Callable[[list[Ids]], Floats]  # n texts → (n, C)

MAX_OCCLUSIONS = 256  # model evaluations per text
MAX_OCCLUSIONS_OF = {"te": 64, "bert": 64}  # Transformers are about 100 times slower
BATCH_WORDS = 1 << 16  # approximate number of words in one call of the model


def max_occlusions(model: str) -> int:
    """Return the maximum number of occlusions per text, which is lower for slow types of models."""
    return MAX_OCCLUSIONS_OF.get(model, MAX_OCCLUSIONS)


def occlusion_window(words: int, limit: int = MAX_OCCLUSIONS) -> int:
    """Return how many consecutive words each occlusion removes from a text.

    It is 1 for up to ``limit`` words. Occluding single words costs T² words in total, so in a
    longer text windows of several words are left out, and the words of a window share its change.
    """
    return -(-words // limit)


def occlusion(ids: Ids, logits_of: LogitsOf, *, limit: int = MAX_OCCLUSIONS) -> Contributions:
    """Compute word contributions by occlusion, as the drop in each logit when a word is removed.

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
