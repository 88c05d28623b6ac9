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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BASE = np.uint32(2654435761)
STEP = 0x9E3779B9
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


class Counts(NamedTuple):
    """The distinct n-grams of many texts, laid end to end; text i begins at offsets[i]."""

    keys: NDArray[np.uint32]  # (N,) ascending within a text
    counts: NDArray[np.int64]  # (N,)
    offsets: NDArray[np.int64]  # (texts + 1,)


def mix(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Scatter the bits of ``h`` evenly (the last step of MurmurHash3, a bijection)."""
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def hash_ngrams(words: Sequence[str], spec: NgramSpec) -> Ngrams:
    """Hash every n-gram of one text's ``words``, with the words that each covers."""
    return _hash_laid(words, np.array([0, len(words)], np.int64), spec)


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
    found = _hash_laid(list(chain.from_iterable(texts)), bounds, spec)
    owner = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(bounds))  # (words,)
    pairs = (owner[found.first] << np.uint64(32)) | found.keys  # text above, key below
    pairs.sort()
    starts = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]])[: len(pairs)])
    distinct = pairs[starts]
    return Counts(
        keys=distinct.astype(np.uint32),
        counts=np.diff(np.append(starts, len(pairs))),
        offsets=np.searchsorted(
            distinct, np.arange(len(texts) + 1, dtype=np.uint64) << np.uint64(32)
        ),
    )


def _hash_laid(words: Sequence[str], bounds: NDArray[np.int64], spec: NgramSpec) -> Ngrams:
    """Hash the n-grams of texts laid end to end; no n-gram crosses one of ``bounds``."""
    if not words:
        none = np.zeros(0, np.int64)
        return Ngrams(none.astype(np.uint32), none, none)
    points, starts = _framed(words)
    parts = _runs_of_words(_hash_words(points, starts), bounds, spec.words)
    if spec.chars:
        parts += _runs_of_chars(points, starts, *spec.chars)
    return Ngrams(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _framed(words: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Code points of all framed words end to end, and where each begins."""
    laid = OPEN + (CLOSE + OPEN).join(words) + CLOSE
    points = np.frombuffer(laid.encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
    return points, np.cumsum(lengths) - lengths


def _hash_words(points: NDArray[np.uint32], starts: NDArray[np.int64]) -> NDArray[np.uint32]:
    lengths = np.diff(starts, append=len(points))
    powers = np.full(lengths.max(), BASE, np.uint32)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    place = np.arange(len(points)) - np.repeat(starts, lengths)
    return mix(np.add.reduceat(points * powers[place], starts, dtype=np.uint32))


def _runs_of_words(
    hashes: NDArray[np.uint32], bounds: NDArray[np.int64], longest: int
) -> list[Ngrams]:
    at = np.arange(len(hashes))
    left = np.repeat(bounds[1:], np.diff(bounds)) - at  # words from here to the end of the text
    rolled = hashes
    parts = [Ngrams(hashes, at, np.ones_like(at))] if longest else []
    for n in range(2, longest + 1):
        rolled = rolled[:-1] * BASE + hashes[n - 1 :]
        inside = np.flatnonzero(left[: len(rolled)] >= n)
        parts.append(Ngrams(mix(rolled[inside]), inside, np.full_like(inside, n)))
    return parts


def _runs_of_chars(
    points: NDArray[np.uint32], starts: NDArray[np.int64], shortest: int, longest: int
) -> list[Ngrams]:
    lengths = np.diff(starts, append=len(points))
    word = np.repeat(np.arange(len(starts)), lengths)
    left = (starts + lengths)[word] - np.arange(len(points))  # characters to the end of the word
    rolled = points
    parts = []
    for n in range(1, longest + 1):
        if n > 1:
            rolled = rolled[:-1] * BASE + points[n - 1 :]
        if n >= shortest:
            inside = np.flatnonzero(left[: len(rolled)] >= n)
            keys = mix(rolled[inside] + np.uint32(n * STEP & 0xFFFFFFFF))
            parts.append(Ngrams(keys, word[inside], np.ones_like(inside)))
    return parts
