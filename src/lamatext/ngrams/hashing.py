"""Words → hashed n-grams: runs of words, and runs of characters inside each word.

Every n-gram becomes a 32-bit key by additions, multiplications, shifts and exclusive-ors modulo
2³², so that another language (JavaScript with ``Math.imul``) finds the same key.  A word is framed
by two marks, as ``^word$``, and its characters are code points c₀ c₁ …:

    characters   key = mix(n·STEP + Σ cᵢ·BASEⁿ⁻¹⁻ⁱ)        n characters, marks included
    one word     hash = Σ cᵢ·BASEⁱ,  key = mix(hash)        all characters, marks included
    n words      key = mix(Σ mix(hashᵢ)·BASEⁿ⁻¹⁻ⁱ)          n > 1
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BASE = np.uint32(2654435761)
STEP = 0x9E3779B9
USUAL = 64  # characters of a framed word, up to which the powers of BASE are kept
OPEN, CLOSE = "\x02", "\x03"  # the marks around a word: no text that people write has them
CHUNK = 1 << 22  # n-grams counted at once; bounds the memory of `count_ngrams`


@dataclass(frozen=True, slots=True)
class NgramSpec:
    """Which n-grams are taken."""

    words: int = 2  # runs of 1 to `words` words
    chars: tuple[int, int] | None = (2, 5)  # shortest and longest run inside a framed word


class Ngrams(NamedTuple):
    """The n-grams of some words, every occurrence for itself."""

    keys: NDArray[np.uint32]  # (N,)
    first: NDArray[np.int64]  # (N,) the first word it covers
    width: NDArray[np.int64]  # (N,) how many words it covers


class Part(NamedTuple):
    """The n-grams of one length; their keys are still to be mixed."""

    sums: NDArray[np.uint32]  # (N,)
    first: NDArray[np.int64]  # (N,) the first word each covers
    width: int  # how many words each covers


class Counts(NamedTuple):
    """The distinct n-grams of many texts, laid end to end; text i begins at offsets[i]."""

    keys: NDArray[np.uint32]  # (N,) ascending within a text
    counts: NDArray[np.int64]  # (N,)
    offsets: NDArray[np.int64]  # (texts + 1,)


def mix(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Scatter the bits of ``h`` evenly (the last step of MurmurHash3, a bijection)."""
    h = h ^ (h >> np.uint32(16))
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h


def hash_ngrams(words: Sequence[str], spec: NgramSpec) -> Ngrams:
    """Hash every n-gram of one text's ``words``, with the words that each covers."""
    parts = _parts(words, np.array([0, len(words)]), spec)
    width = np.repeat([part.width for part in parts], [len(part.sums) for part in parts])
    return Ngrams(_keys(parts), _first(parts), width.astype(np.int64))


def count_text(
    words: Sequence[str], spec: NgramSpec
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The distinct n-grams of one text, ascending, and how often each stands in it."""
    keys = _keys(_parts(words, np.array([0, len(words)]), spec))
    keys.sort()
    starts = _starts(keys)
    return keys[starts[:-1]], starts[1:] - starts[:-1]


def count_ngrams(texts: Iterable[Sequence[str]], spec: NgramSpec) -> Counts:
    """Count the n-grams of each text; memory beyond the result is bounded by ``CHUNK``."""
    parts = [_count_chunk(chunk, spec) for chunk in _chunks(texts, spec)]
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offsets) for part in parts)])
    return Counts(
        keys=np.concatenate([np.zeros(0, np.uint32), *(part.keys for part in parts)]),
        counts=np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)]),
        offsets=np.cumsum(lengths),
    )


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


def _count_chunk(texts: list[Sequence[str]], spec: NgramSpec) -> Counts:
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    parts = _parts(list(chain.from_iterable(texts)), bounds, spec)
    owner = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(bounds))  # (words,)
    pairs = (owner[_first(parts)] << np.uint64(32)) | _keys(parts)  # text above, key below
    pairs.sort()
    starts = _starts(pairs)
    distinct = pairs[starts[:-1]]
    return Counts(
        keys=distinct.astype(np.uint32),
        counts=np.diff(starts),
        offsets=np.searchsorted(
            distinct, np.arange(len(texts) + 1, dtype=np.uint64) << np.uint64(32)
        ),
    )


def _starts(ascending: NDArray[Any]) -> NDArray[np.int64]:
    """Where each value begins in an array of ascending ones, and the array's length."""
    new = np.ones(len(ascending) + 1, bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:-1])
    return np.flatnonzero(new)


def _parts(words: Sequence[str], bounds: NDArray[np.int64], spec: NgramSpec) -> list[Part]:
    """The n-grams of texts laid end to end; none crosses one of ``bounds``."""
    if not words:
        return []
    points, lengths = _framed(words)
    parts = _runs_of_words(_sum_words(points, lengths), bounds, spec.words)
    if spec.chars:
        parts += _runs_of_chars(points, lengths, *spec.chars)
    return parts


def _keys(parts: list[Part]) -> NDArray[np.uint32]:
    return mix(np.concatenate([np.zeros(0, np.uint32), *(part.sums for part in parts)]))


def _first(parts: list[Part]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *(part.first for part in parts)])


def _framed(words: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Code points of all framed words end to end, and how many each has."""
    laid = OPEN + (CLOSE + OPEN).join(words) + CLOSE
    points = np.frombuffer(laid.encode("utf-32-le", "surrogatepass"), np.uint32)
    return points, np.fromiter(map(len, words), np.int64, len(words)) + 2


def _sum_words(points: NDArray[np.uint32], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Σ cᵢ·BASEⁱ of each word."""
    starts = lengths.cumsum() - lengths
    longest = int(lengths.max())
    powers = POWERS if longest <= USUAL else _powers(longest)
    place = np.arange(len(points)) - starts.repeat(lengths)
    return np.add.reduceat(points * powers[place], starts, dtype=np.uint32)


def _powers(count: int) -> NDArray[np.uint32]:
    """BASEⁱ for i from 0."""
    factors = np.full(count, BASE, np.uint32)
    factors[0] = 1
    return np.multiply.accumulate(factors)


POWERS = _powers(USUAL)


def _runs_of_words(sums: NDArray[np.uint32], bounds: NDArray[np.int64], longest: int) -> list[Part]:
    at = np.arange(len(sums))
    left = None  # words from here to the end of the text; one text ends where all end
    if len(bounds) > 2:
        left = np.repeat(bounds[1:], np.diff(bounds)) - at
    parts = [Part(sums, at, 1)] if longest else []
    hashes = rolled = mix(sums)
    for n in range(2, longest + 1):
        rolled = rolled[:-1] * BASE + hashes[n - 1 :]
        if left is None:
            parts.append(Part(rolled, at[: len(rolled)], n))
        else:
            inside = np.flatnonzero(left[: len(rolled)] >= n)
            parts.append(Part(rolled[inside], inside, n))
    return parts


def _runs_of_chars(
    points: NDArray[np.uint32], lengths: NDArray[np.int64], shortest: int, longest: int
) -> list[Part]:
    word = np.repeat(np.arange(len(lengths)), lengths)
    left = lengths.cumsum()[word] - np.arange(len(points))  # characters to the end of the word
    rolled = points
    parts = []
    for n in range(1, longest + 1):
        if n > 1:
            rolled = rolled[:-1] * BASE + points[n - 1 :]
        if n >= shortest:
            inside = np.flatnonzero(left[: len(rolled)] >= n)
            sums = rolled[inside] + np.uint32(n * STEP & 0xFFFFFFFF)
            parts.append(Part(sums, word[inside], 1))
    return parts
