"""N-gram hashing: 32-bit keys for runs of words, and for runs of characters inside each word.

The hash uses additions, multiplications, shifts and exclusive-ors modulo 2³² only, so that another
language (JavaScript with ``Math.imul``) computes the same key. A word is framed by two marks, as
``^word$``, and its characters are code points c₀ c₁ …:

    characters   key = mix(n·STEP + Σ cᵢ·BASEⁿ⁻¹⁻ⁱ)        n characters, marks included
    one word     hash = Σ cᵢ·BASEⁱ,  key = mix(hash)        all characters, marks included
    n words      key = mix(Σ mix(hashᵢ)·BASEⁿ⁻¹⁻ⁱ)          n > 1

Shapes: N n-grams.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import frame_words

BASE = np.uint32(2654435761)
STEP = 0x9E3779B9
PRECOMPUTED = 64  # powers of BASE; enough for framed words of that many characters
CHUNK = 1 << 22  # n-grams counted at once, to bound the memory of count_ngrams


@dataclass(frozen=True, slots=True)
class NgramSpec:
    """Lengths of the word n-grams and character n-grams to hash."""

    words: int = 2  # longest word n-gram; 0 for none
    chars: tuple[int, int] | None = (2, 5)  # shortest and longest character n-gram in a framed word


class Ngrams(NamedTuple):
    """Hash keys of the n-grams in a text, with the word positions that each n-gram covers."""

    keys: NDArray[np.uint32]  # (N,)
    first: NDArray[np.int64]  # (N,) first word that it covers
    width: NDArray[np.int64]  # (N,) number of words that it covers


class _Sums(NamedTuple):
    """Intermediate hash values of all n-grams of one length."""

    sums: NDArray[np.uint32]  # (N,)
    first: NDArray[np.int64]  # (N,) first word that each covers
    width: int  # number of words that each covers


class NgramCounts(NamedTuple):
    """Counts of the distinct n-gram hash keys of several texts; text i starts at ``offsets[i]``."""

    keys: NDArray[np.uint32]  # (N,) ascending within a text
    counts: NDArray[np.integer[Any]]  # (N,)
    offsets: NDArray[np.int64]  # (texts + 1,)


class KeyBuckets(NamedTuple):
    """Index of sorted n-gram hash keys by their leading bits, for fast lookup."""

    starts: NDArray[np.int32]  # where the keys of each bucket begin, and the number of keys
    shift: np.uint32  # a key's bucket is key >> shift

    @classmethod
    def of(cls, keys: NDArray[np.uint32]) -> "KeyBuckets":
        """Create an index of sorted n-gram hash keys with about one key per bucket."""
        bits = min(24, max(1, len(keys).bit_length()))
        shift = np.uint32(32 - bits)
        starts = np.zeros((1 << bits) + 1, np.int32)
        np.cumsum(np.bincount(keys >> shift, minlength=1 << bits), out=starts[1:])
        return cls(starts, shift)


def mix(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Finalize n-gram hashes by mixing their bits, as in the last step of MurmurHash3."""
    h = h ^ (h >> np.uint32(16))
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h


def hash_ngrams(words: Sequence[str], spec: NgramSpec) -> Ngrams:
    """Hash every n-gram of a text that is given as a list of words."""
    parts = _hash_sums(words, np.array([0, len(words)]), spec)
    width = np.repeat([part.width for part in parts], [len(part.sums) for part in parts])
    return Ngrams(_keys(parts), _first(parts), width.astype(np.int64))


def count_ngrams(texts: Iterable[Sequence[str]], spec: NgramSpec) -> NgramCounts:
    """Count the n-grams of each text by hash key, in chunks to limit memory use.

    ``CHUNK`` bounds the memory that is used in addition to the result.
    """
    parts = [_count_chunk(chunk, spec) for chunk in _chunks(texts, spec)]
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offsets) for part in parts)])
    return NgramCounts(
        keys=np.concatenate([np.zeros(0, np.uint32), *(part.keys for part in parts)]),
        counts=np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)]),
        offsets=np.cumsum(lengths),
    )


class WordHashes(NamedTuple):
    """Hashes of distinct words and of all their character n-grams."""

    sums: NDArray[np.uint32]  # (V,) unfinished
    characters: NDArray[np.uint32]  # (N,) finished keys, grouped by word
    offsets: NDArray[np.int64]  # (V + 1,) where the n-grams of each word begin


def hash_words(words: Sequence[str], spec: NgramSpec) -> WordHashes:
    """Hash distinct words and all their character n-grams."""
    none = np.zeros(0, np.uint32)
    if not words:
        return WordHashes(none, none, np.zeros(1, np.int64))
    points, lengths = frame_words(words)
    sums = _sum_words(points, lengths)
    if spec.chars is None:
        return WordHashes(sums, none, np.zeros(len(words) + 1, np.int64))
    parts = _character_ngrams(points, lengths, *spec.chars)
    word = _first(parts)
    counts = np.bincount(word, minlength=len(words))
    keys = _keys(parts)[np.argsort(word, kind="stable")]
    return WordHashes(sums, keys, np.concatenate([[0], np.cumsum(counts)]))


def _chunks(texts: Iterable[Sequence[str]], spec: NgramSpec) -> Iterable[list[Sequence[str]]]:
    per_word = spec.words + (5 * (spec.chars[1] - spec.chars[0] + 1) if spec.chars else 0)
    chunk: list[Sequence[str]] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text) * per_word
        if size > CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _count_chunk(texts: list[Sequence[str]], spec: NgramSpec) -> NgramCounts:
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    parts = _hash_sums(list(chain.from_iterable(texts)), bounds, spec)
    owner = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(bounds))  # (words,)
    return _count_pairs(_keys(parts), owner[_first(parts)], len(texts))


def _count_pairs(keys: NDArray[np.uint32], owner: NDArray[np.uint64], texts: int) -> NgramCounts:
    pairs = (owner << np.uint64(32)) | keys  # text and key in 64 bits
    pairs.sort()
    starts = _starts(pairs)
    distinct = pairs[starts[:-1]]
    return NgramCounts(
        keys=distinct.astype(np.uint32),
        counts=np.diff(starts),
        offsets=np.searchsorted(distinct, np.arange(texts + 1, dtype=np.uint64) << np.uint64(32)),
    )


def _starts(ascending: NDArray[Any]) -> NDArray[np.int64]:
    """Return the start of each run of equal hash keys in a sorted array, and the array's length."""
    new = np.ones(len(ascending) + 1, bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:-1])
    return np.flatnonzero(new)


def _hash_sums(words: Sequence[str], bounds: NDArray[np.int64], spec: NgramSpec) -> list[_Sums]:
    """Compute the unfinished hashes of all n-grams of texts, given as one list of words."""
    if not words:
        return []
    points, lengths = frame_words(words)
    parts = _word_ngrams(_sum_words(points, lengths), bounds, spec.words)
    if spec.chars:
        parts += _character_ngrams(points, lengths, *spec.chars)
    return parts


def _keys(parts: list[_Sums]) -> NDArray[np.uint32]:
    return mix(np.concatenate([np.zeros(0, np.uint32), *(part.sums for part in parts)]))


def _first(parts: list[_Sums]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *(part.first for part in parts)])


def _sum_words(points: NDArray[np.uint32], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Compute the polynomial hash of each word from its code points."""
    starts = lengths.cumsum() - lengths
    longest = int(lengths.max())
    powers = POWERS if longest <= PRECOMPUTED else _powers(longest)
    place = np.arange(len(points)) - starts.repeat(lengths)
    return np.add.reduceat(points * powers[place], starts, dtype=np.uint32)


def _powers(count: int) -> NDArray[np.uint32]:
    factors = np.full(count, BASE, np.uint32)
    factors[0] = 1
    return np.multiply.accumulate(factors)


POWERS = _powers(PRECOMPUTED)


def _word_ngrams(sums: NDArray[np.uint32], bounds: NDArray[np.int64], longest: int) -> list[_Sums]:
    at = np.arange(len(sums))
    left = None  # words up to the end of the text; not needed for a single text
    if len(bounds) > 2:
        left = np.repeat(bounds[1:], np.diff(bounds)) - at
    parts = [_Sums(sums, at, 1)] if longest else []
    hashes = rolled = mix(sums)
    for n in range(2, min(longest, len(sums)) + 1):
        rolled = rolled[:-1] * BASE + hashes[n - 1 :]
        if left is None:
            parts.append(_Sums(rolled, at[: len(rolled)], n))
        else:
            inside = np.flatnonzero(left[: len(rolled)] >= n)
            parts.append(_Sums(rolled[inside], inside, n))
    return parts


def _character_ngrams(
    points: NDArray[np.uint32], lengths: NDArray[np.int64], shortest: int, longest: int
) -> list[_Sums]:
    word = np.repeat(np.arange(len(lengths)), lengths)
    left = lengths.cumsum()[word] - np.arange(len(points))  # characters up to the end of the word
    rolled = points
    parts = []
    for n in range(1, longest + 1):
        if n > 1:
            rolled = rolled[:-1] * BASE + points[n - 1 :]
        if n >= shortest:
            inside = np.flatnonzero(left[: len(rolled)] >= n)
            sums = rolled[inside] + np.uint32(n * STEP & 0xFFFFFFFF)
            parts.append(_Sums(sums, word[inside], 1))
    return parts
