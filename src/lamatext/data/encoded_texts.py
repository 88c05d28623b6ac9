"""Encoded texts: word ids for the network, and words or their code points for the n-grams.

Shapes: n texts, W words of all texts.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import Indices, TokenIds

OPEN, CLOSE = "\x02", "\x03"  # marks around a word, which do not occur in ordinary text


class FramedTexts(NamedTuple):
    """Tokenized texts as Unicode code points, with boundary marks around each word."""

    points: NDArray[np.uint32]  # of all words, one after the other
    lengths: Indices  # (W,) code points of each word, marks included
    bounds: Indices  # (n + 1,) first word of each text, and the number of words

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> "FramedTexts":
        """Convert tokenized texts to arrays of code points, for hashing n-grams."""
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=bounds[1:])
        words = texts[0] if len(texts) == 1 else list(chain.from_iterable(texts))
        if not words:
            return cls(np.zeros(0, np.uint32), np.zeros(0, np.int64), bounds)
        return cls(*frame_words(words), bounds)


def frame_words(words: Sequence[str]) -> tuple[NDArray[np.uint32], Indices]:
    """Concatenate words as Unicode code points, with boundary marks around each word.

    Returns the code points and the length of each word, marks included. N-grams are hashed from
    them.
    """
    framed = OPEN + (CLOSE + OPEN).join(words) + CLOSE
    points = np.frombuffer(framed.encode("utf-32-le", "surrogatepass"), np.uint32)
    return points, np.fromiter(map(len, words), np.int64, len(words)) + 2


class EncodedTexts(NamedTuple):
    """Encoded texts with their word ids, words and counts of all and of known words."""

    ids: TokenIds  # word ids of each text
    words: Sequence[Sequence[str]] | FramedTexts  # all words of each text, known or not
    word_counts: Indices  # (n,)
    known_counts: Indices  # (n,) words in the vocabulary
