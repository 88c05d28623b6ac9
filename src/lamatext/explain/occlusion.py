"""For systems without attention: what a logit loses when a word is left out.

Shapes: T words, C classes.
"""

from collections.abc import Callable, Iterator

import numpy as np

from lamatext.data.token_ids import UNK, Ids
from lamatext.explain.classifier_head import Floats
from lamatext.explain.contributions import Contributions

LogitsOf = Callable[[list[Ids]], Floats]  # n texts → (n, C)

MOST = 256  # versions of a text that are read, at most
FEW = {"te": 64, "bert": 64}  # of the systems that read a hundred times slower than the others
BATCH_WORDS = 1 << 16  # words in one call of the model, about


def most_versions(model: str) -> int:
    """How many versions of a text the system of that name reads, at most."""
    return FEW.get(model, MOST)


def occlusion_window(words: int, most: int = MOST) -> int:
    """How many neighbouring words are left out together in a text of ``words`` words.

    One, up to ``most`` words. In a longer text every version without a word would cost as much as
    the whole text, T² words in all; so windows are left out and their words share the change.
    """
    return -(-words // most)


def occlusion(ids: Ids, logits_of: LogitsOf, *, most: int = MOST) -> Contributions:
    """logit_c(text) − logit_c(text without word t): (C, T), and a base so that all add up."""
    window = occlusion_window(len(ids), most)
    starts = np.arange(0, len(ids), window)
    versions = [ids, *(without(ids, slice(start, start + window)) for start in starts)]
    logits = np.concatenate([logits_of(batch) for batch in batches(versions)])
    changes = (logits[0] - logits[1:]).T  # (C, windows)
    sizes = np.diff(starts, append=len(ids))
    shares = np.repeat(changes / sizes, sizes, axis=1).astype(np.float32)  # (C, T)
    return Contributions(shares, logits[0] - shares.sum(axis=1))


def without(ids: Ids, words: slice | np.ndarray[tuple[int], np.dtype[np.integer]]) -> Ids:
    """The text less some words; a text with nothing left is one unknown word."""
    kept = np.delete(ids, words)
    return kept if len(kept) else np.array([UNK], dtype=np.int32)


def batches(texts: list[Ids], words: int = BATCH_WORDS) -> Iterator[list[Ids]]:
    """The texts in their order, cut so that a padded batch has about ``words`` words."""
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
