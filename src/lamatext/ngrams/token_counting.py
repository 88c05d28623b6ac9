"""Counting the n-grams of tokenized texts by hash key, in compiled code.

The keys are those of ``ngrams/hashing.py``; each distinct word is hashed only once.
"""

import numpy as np
from numpy.typing import NDArray

from lamatext.data.tokenizer import TokenizedTexts
from lamatext.kernels.numba_compat import compiled
from lamatext.ngrams.hashing import BASE, NgramCounts, NgramSpec, WordHashes, hash_words

MAX_COUNT = 65_535


def count_tokens(
    tokens: TokenizedTexts, spec: NgramSpec, hashes: WordHashes | None = None
) -> NgramCounts:
    """Count the n-grams of each tokenized text by hash key.

    The counts are those of ``count_ngrams``, up to ``MAX_COUNT``. ``hashes`` are those of the
    distinct words, if they are known already.
    """
    rows, hashes = tokens.rows, hashes or hash_words(tokens.types, spec)
    ends = rows.offsets * spec.words  # upper bounds of the n-grams up to each text
    if spec.chars is not None:
        characters = np.diff(hashes.offsets)[rows.ids]
        ends = ends + np.concatenate([[0], np.cumsum(characters)])[rows.offsets]
    keys, counts = np.empty(ends[-1], np.uint32), np.empty(ends[-1], np.uint16)
    buffer = np.empty(np.diff(ends).max(initial=0), np.uint32)
    offsets = np.zeros(len(rows) + 1, np.int64)
    texts = (np.asarray(rows.ids), np.asarray(rows.offsets))
    size = count_keys(hashes, *texts, spec.words, buffer, NgramCounts(keys, counts, offsets))
    return NgramCounts(keys[:size], counts[:size], offsets)


@compiled
def count_keys(
    hashes: WordHashes,
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    longest: int,
    buffer: NDArray[np.uint32],
    counted: NgramCounts,
) -> int:  # pragma: no cover
    """Count the n-grams of tokenized texts by hash key and write them to ``counted``.

    ``buffer`` has room for all n-grams of any text.
    """
    size = 0
    for i in range(len(offsets) - 1):
        words = ids[offsets[i] : offsets[i + 1]]
        keys = buffer[: collect_keys(hashes, words, longest, buffer)]
        keys.sort()
        start = 0
        for k in range(1, len(keys) + 1):
            if k == len(keys) or keys[k] != keys[start]:
                counted.keys[size], counted.counts[size] = keys[start], min(k - start, MAX_COUNT)
                size += 1
                start = k
        counted.offsets[i + 1] = size
    return size


@compiled
def collect_keys(
    hashes: WordHashes, words: NDArray[np.int32], longest: int, buffer: NDArray[np.uint32]
) -> int:  # pragma: no cover
    """Write the hash key of every n-gram of a tokenized text to ``buffer`` and return the count."""
    size = 0
    for first in range(len(words)):
        rolled = np.uint32(0)
        for n in range(1, min(longest, len(words) - first) + 1):
            own = hashes.sums[words[first + n - 1]]
            rolled = np.uint32(rolled * BASE + mix_bits(own))
            buffer[size] = mix_bits(own if n == 1 else rolled)
            size += 1
        for k in range(hashes.offsets[words[first]], hashes.offsets[words[first] + 1]):
            buffer[size] = hashes.characters[k]
            size += 1
    return size


@compiled
def mix_bits(h: np.uint32) -> np.uint32:  # pragma: no cover
    """Mix the bits of an n-gram hash, as ``ngrams.hashing.mix`` does but in compiled code."""
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))
