"""Near-duplicate texts: groups of rows that must stay together in a split.

Two texts are duplicates if they are equal after case, punctuation and digits are removed, or if the
Jaccard index of their sets of word 3-grams is at least 0.9. Digits are kept in a text most of whose
words are codes such as ``w17``. Candidates are found with MinHash and locality-sensitive hashing
and then compared exactly, so no group is too large; two texts with an index of 0.9 are missed with
a probability of 0.0002. Each text is compared with at most ``BANDS * WINDOW`` others, so time and
memory grow in proportion to the total length of the texts. The result depends on the texts alone.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import text_batches
from lamatext.progress import SILENT, Progress

JACCARD = 0.9
BANDS, ROWS = 8, 4  # of the MinHash signature; misses (1 - 0.9**ROWS)**BANDS of the pairs at 0.9
WINDOW = 8  # texts with an equal band that a text is compared with
_BLOCK = 1 << 22  # bytes of text that are processed at once
_PAIRS = 1 << 14  # pairs that are compared at once

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]

# What is removed: punctuation, digits, spaces, control characters and the symbols of ASCII.
_REMOVED = r"[\p{P}\p{N}\p{Z}\p{C}$+<=>^`|~]+"
_REMOVED_FROM_CODES = _REMOVED.replace(r"\p{N}", "")
_CODE = r"\p{L}\p{N}"  # in a word such as w17
# Each character of a script that is written without spaces is a word.
_UNSPACED = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])"
SPACE = 0x20  # bytes up to this one are whitespace or control characters
_THREE_BYTES = 0xE0  # the first byte of a character of such a script is not below this one

_random = np.random.default_rng(17)
_BYTE_CODES: Hashes = _random.integers(1, 1 << 63, 256, dtype=np.uint64) | np.uint64(1)
_SEEDS: Hashes = _random.integers(1, 1 << 63, BANDS * ROWS, dtype=np.uint64)
_MULTIPLIERS: Hashes = _random.integers(1, 1 << 63, 4, dtype=np.uint64) | np.uint64(1)


def group_rows(
    texts: pa.ChunkedArray, values: pa.ChunkedArray | None = None, progress: Progress = SILENT
) -> Rows:
    """Group the rows with duplicate texts or an equal value (such as a customer), transitively.

    Args:
        texts: one text per row.
        values: such as the customer of each text; an empty value is in no group.
        progress: receives the number of processed texts.

    Returns:
        The first row of the group of each row (n,).
    """
    group = np.arange(len(texts))
    if values is not None:
        encoded = pc.dictionary_encode(values.combine_chunks())
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.flatnonzero(pc.not_equal(values, "").to_numpy())
        group = _merge(group, rows, rows[_first_equal(codes[rows])])
    keys, signatures = _signatures(texts, progress)
    rows = np.flatnonzero(keys)  # an empty text is no duplicate
    group = _merge(group, rows, rows[_first_equal(keys[rows])])
    for left, right in _candidates(keys, signatures):
        apart = group[left] != group[right]
        left, right = left[apart], right[apart]
        alike = _are_alike(texts, left, right)
        group = _merge(group, left[alike], right[alike])
    return group


def are_shared(texts: pa.ChunkedArray, others: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return for each text of ``others`` whether it has a duplicate among ``texts``."""
    together = pa.chunked_array([*texts.chunks, *others.cast(texts.type).chunks], texts.type)
    group = group_rows(together)
    return np.isin(group[len(texts) :], group[: len(texts)])


def text_keys(texts: pa.Array) -> Hashes:
    """Return a hash of each text that is equal for exact duplicates (n,).

    Texts that are equal without case, punctuation, digits and spaces are duplicates.
    """
    blocks = [_Words(block).text_keys() for block in _blocks(pa.chunked_array([texts]))]
    return np.concatenate([np.zeros(0, np.uint64), *blocks])


def _merge(group: Rows, left: Rows, right: Rows) -> Rows:
    """Merge the groups of the two texts of each pair, since these texts are duplicates.

    A group is identified by the row of its first text.
    """
    group = group.copy()
    while len(left):
        first, second = group[left], group[right]
        apart = first != second
        left, right = left[apart], right[apart]
        low = np.minimum(first, second)[apart]
        np.minimum.at(group, np.maximum(first, second)[apart], low)
        while (group[group] != group).any():
            group = group[group]
    return group


def _first_equal(keys: NDArray[np.generic]) -> Rows:
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rows: Rows = first[inverse]
    return rows


def _signatures(texts: pa.ChunkedArray, progress: Progress) -> tuple[Hashes, Hashes]:
    """Compute the exact-duplicate hash and the MinHash bands of each text.

    The shapes are (n,) and (n, BANDS). A text of fewer than three words has the bands 0.
    """
    keys: list[Hashes] = []
    bands: list[Hashes] = []
    for block in _blocks(texts):
        words = _Words(block)
        keys.append(words.text_keys())
        bands.append(_minhash_bands(*words.trigrams(), len(block)))
        progress.advance(len(block))
    return np.concatenate(keys), np.concatenate(bands)


def _blocks(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the texts in blocks of limited size, so that finding duplicates needs little memory."""
    for batch in text_batches(texts):
        size = max(1, len(batch) * _BLOCK // max(batch.nbytes, 1))
        for start in range(0, len(batch), size):
            yield batch.slice(start, size)


class _Words:
    """Hashes of words for finding duplicates, which ignore case, punctuation and digits."""

    def __init__(self, texts: pa.Array) -> None:
        content = _normalize(texts)
        bare = pc.equal(pc.utf8_trim_whitespace(content), "")
        if pc.any(bare).as_py():  # nothing but digits and punctuation: compared as they are
            content = pc.if_else(bare, texts, content)
        are_codes = _consist_of_codes(texts, content)
        if pc.any(are_codes).as_py():
            content = pc.if_else(are_codes, _normalize(texts, _REMOVED_FROM_CODES), content)
        self._bytes, self._starts = text_bytes(content)
        self._is_letter = self._bytes > SPACE
        self._text_of_byte = np.repeat(np.arange(len(texts)), np.diff(self._starts))
        self._texts = len(texts)

    def text_keys(self) -> Hashes:
        """Return a hash of each text without spaces for exact duplicates, 0 if empty (n,)."""
        letters = np.flatnonzero(self._is_letter)
        text = self._text_of_byte[letters]
        return _hash_runs(self._bytes[letters], text, self._texts)

    def trigrams(self) -> tuple[Hashes, Rows]:
        """Return the hashes of all word 3-grams, and the index of the text of each 3-gram."""
        begins = word_starts(self._is_letter, self._starts)
        letters = np.flatnonzero(self._is_letter)
        word_of_letter = np.cumsum(begins)[letters] - 1
        text_of_word = self._text_of_byte[begins]
        words = _hash_runs(self._bytes[letters], word_of_letter, len(text_of_word))
        if len(words) < 3:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        a, b, c, _ = _MULTIPLIERS
        hashes = _mix(words[:-2] * a + words[1:-1] * b + words[2:] * c)
        inside = text_of_word[:-2] == text_of_word[2:]
        return hashes[inside], text_of_word[:-2][inside]


def _consist_of_codes(texts: pa.Array, normalized: pa.Array) -> pa.Array:
    """Return for each text whether most of its words are codes, which mix letters and digits.

    Without their digits, texts of words such as ``w17`` would all be equal.
    """
    codes = pc.count_substring_regex(texts, pattern=_CODE)
    if not (pc.max(codes).as_py() or 0):
        return codes.cast(pa.bool_())
    words = pc.count_substring_regex(normalized, pattern="[^ ]+")
    return pc.greater(pc.multiply(codes, 2), words)


def _normalize(texts: pa.Array, removed: str = _REMOVED) -> pa.Array:
    lower = pc.utf8_lower(texts)
    words = pc.replace_substring_regex(lower, pattern=removed, replacement=" ")
    if (text_bytes(words)[0] < _THREE_BYTES).all():
        return words
    return pc.replace_substring_regex(words, pattern=_UNSPACED, replacement=r" \1 ")


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.uint8], Rows]:
    """Return the bytes of all texts to compare for duplicates, and the offset of each text."""
    texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data or b"", np.uint8)[starts[0] : starts[-1]]
    return content, starts - starts[0]


def word_starts(is_letter: NDArray[np.bool_], starts: Rows) -> NDArray[np.bool_]:
    """Return for each byte whether a word begins there: a letter at the start or after a space.

    ``is_letter`` tells whether a byte is no space, ``starts`` are the offsets of the texts.
    """
    begins = is_letter.copy()
    begins[1:] &= ~is_letter[:-1]
    firsts = starts[:-1][np.diff(starts) > 0]
    begins[firsts] = is_letter[firsts]
    return begins


def _hash_runs(letters: NDArray[np.uint8], run: Rows, runs: int) -> Hashes:
    """Hash words or texts to find duplicates; ``run`` gives the word or text of each byte."""
    hashes = np.zeros(runs, np.uint64)
    if not len(letters):
        return hashes
    starts = _run_starts(run)
    lengths = np.diff(starts, append=len(letters))
    position = np.arange(len(letters)) - np.repeat(starts, lengths)
    powers = np.cumprod(np.full(lengths.max(), _MULTIPLIERS[3]))
    terms = _BYTE_CODES[letters] * powers[position]
    hashes[run[starts]] = _mix(np.add.reduceat(terms, starts))
    return hashes


def _run_starts(run: Rows) -> Rows:
    """Return the index at which each run of equal values in an array starts."""
    return np.flatnonzero(np.diff(run, prepend=-1))


def _mix(values: Hashes) -> Hashes:
    """Mix the bits of the hashes that find duplicates (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _minhash_bands(hashes: Hashes, text: Rows, texts: int) -> Hashes:
    """Compute the bands of the MinHash signature of each text from its 3-grams (texts, BANDS)."""
    bands = np.zeros((texts, BANDS), np.uint64)
    if not len(hashes):
        return bands
    starts = _run_starts(text)
    present = text[starts]
    for number, seed in enumerate(_SEEDS):
        smallest = np.minimum.reduceat((hashes ^ seed) * _MULTIPLIERS[0], starts)
        band = number // ROWS
        bands[present, band] = _mix(bands[present, band] * _MULTIPLIERS[1] + smallest)
    return bands


def _candidates(keys: Hashes, bands: Hashes) -> Iterator[tuple[Rows, Rows]]:
    """Yield pairs of rows that share a MinHash band and so may be duplicates."""
    rows = np.unique(_first_equal(keys))
    rows = rows[bands[rows].any(axis=1)]
    for band in range(BANDS):
        order = rows[np.argsort(bands[rows, band], kind="stable")]
        values = bands[order, band]
        for distance in range(1, WINDOW + 1):
            equal = np.flatnonzero(values[:-distance] == values[distance:])
            for start in range(0, len(equal), _PAIRS):
                at = equal[start : start + _PAIRS]
                yield order[at], order[at + distance]


def _are_alike(texts: pa.ChunkedArray, left: Rows, right: Rows) -> NDArray[np.bool_]:
    """Return for each pair of texts whether they are near-duplicates, which share many 3-grams."""
    alike = np.zeros(len(left), bool)
    lengths = 0
    start = 0
    sizes = pc.binary_length(texts.take(pa.array(np.concatenate([left, right]))))
    both = sizes.to_numpy().reshape(2, -1).sum(axis=0) if len(left) else np.empty(0)
    for end in range(1, len(left) + 1):  # as many pairs at once as fit a block
        lengths += both[end - 1]
        if lengths > _BLOCK or end == len(left):
            alike[start:end] = _compare(texts, left[start:end], right[start:end])
            start, lengths = end, 0
    return alike


def _compare(texts: pa.ChunkedArray, left: Rows, right: Rows) -> NDArray[np.bool_]:
    pairs = len(left)
    rows = np.concatenate([left, right])
    hashes, side = _Words(texts.take(pa.array(rows)).combine_chunks()).trigrams()
    keys = np.unique(_mix(hashes + side.astype(np.uint64) * _MULTIPLIERS[2]), return_index=True)[1]
    hashes, side = hashes[keys], side[keys]  # sets: each 3-gram of a text once
    sizes = np.bincount(side, minlength=2 * pairs)
    pair = (side % pairs).astype(np.uint64)
    values, counts = np.unique(_mix(hashes + pair * _MULTIPLIERS[2]), return_counts=True)
    shared_values = values[counts > 1]
    is_shared = np.isin(_mix(hashes + pair * _MULTIPLIERS[2]), shared_values) & (side < pairs)
    shared = np.bincount(side[is_shared], minlength=pairs)
    union = sizes[:pairs] + sizes[pairs:] - shared
    is_alike: NDArray[np.bool_] = (shared >= JACCARD * union - 1e-9) & (union > 0)
    return is_alike
