"""Near-duplicate texts: groups of rows that must stay together in a split.

Two texts are duplicates if they are equal after case, punctuation and digits are removed, or if the
Jaccard index of their sets of word 3-grams is at least 0.9. Digits are kept in a text most of whose
words are codes such as ``w17``. Candidates are found with MinHash and locality-sensitive hashing
and then compared exactly, so there are no false positives; two texts with an index of 0.9 are
missed with a probability of 0.0002. Each text is compared with at most ``BANDS * WINDOW`` others,
so time and memory grow in proportion to the total length of the texts. The result depends on the
texts alone.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import text_batches
from lamatext.progress import SILENT, Progress

JACCARD = 0.9
BANDS, ROWS = 8, 4  # of the MinHash signature; misses (1 - 0.9**ROWS)**BANDS of the pairs at 0.9
WINDOW = 8  # texts with an equal band that a text is compared with
_BLOCK = 1 << 20  # bytes of text that are processed at once
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

# The same for ASCII texts: only letters are kept, or letters and digits.
_ASCII = bytes(range(128)) + bytes(128)
_IS_DIGIT = np.array([chr(byte).isdigit() for byte in _ASCII])
_IS_LETTER = np.array([chr(byte).isalpha() for byte in _ASCII])
_LOWER = np.frombuffer(_ASCII.lower(), np.uint8)
_LOWER_LETTERS = np.where(_IS_LETTER, _LOWER, np.uint8(SPACE))
_LOWER_CODES = np.where(_IS_LETTER | _IS_DIGIT, _LOWER, np.uint8(SPACE))

_random = np.random.default_rng(17)
_BYTE_CODES: Hashes = _random.integers(1, 1 << 63, 256, dtype=np.uint64) | np.uint64(1)
_SEEDS: Hashes = _random.integers(1, 1 << 63, BANDS * ROWS, dtype=np.uint64)
_MULTIPLIERS: Hashes = _random.integers(1, 1 << 63, 4, dtype=np.uint64) | np.uint64(1)


def group_rows(
    texts: pa.ChunkedArray, values: pa.ChunkedArray | None = None, progress: Progress = SILENT
) -> Rows:
    """Group the rows that have duplicate texts or share a value such as a customer id.

    Args:
        texts: one text per row.
        values: a value of each text, such as its customer; empty values do not group rows.
        progress: receives the number of processed texts.

    Returns:
        For each row, the first row of its group (n,).
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


class TextGroups:
    """Groups of texts that a split keeps together: duplicates, and texts with equal group values.

    A group value is, for example, the id of a customer.
    """

    def __init__(self, texts: pa.ChunkedArray, values: pa.ChunkedArray | None = None) -> None:
        self._texts, self._values = texts, values

    def __len__(self) -> int:
        return len(self._texts)

    @cached_property
    def of_rows(self) -> Rows:
        """Return the first row of each text's group (n,), like ``group_rows``; cached."""
        return self.duplicates if self._values is None else group_rows(self._texts, self._values)

    @cached_property
    def duplicates(self) -> Rows:
        """Return the first row of each text's duplicates (n,), ignoring group values; cached."""
        return group_rows(self._texts)

    def count_distinct(self, rows: Rows) -> int:
        """Count the given texts, duplicates of each other once."""
        return len(np.unique(group_rows(self._texts.take(rows))))


def are_shared(texts: pa.ChunkedArray, others: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return whether each text in ``others`` has a duplicate or near-duplicate in ``texts``."""
    together = pa.chunked_array([*texts.chunks, *others.cast(texts.type).chunks], texts.type)
    group = group_rows(together)
    return np.isin(group[len(texts) :], group[: len(texts)])


def text_keys(texts: pa.Array) -> Hashes:
    """Hash each text (n,), so that exact duplicates have equal hashes.

    Exact duplicates are texts that are equal apart from case, punctuation, digits and spaces.
    """
    blocks = [_Words(block).text_keys() for block in _blocks(pa.chunked_array([texts]))]
    return np.concatenate([np.zeros(0, np.uint64), *blocks])


def _merge(group: Rows, left: Rows, right: Rows) -> Rows:
    """Merge the groups of each pair of duplicate texts.

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
    """Yield the texts in blocks, to limit the memory needed to find duplicates."""
    for batch in text_batches(texts):
        size = max(1, len(batch) * _BLOCK // max(batch.nbytes, 1))
        for start in range(0, len(batch), size):
            yield batch.slice(start, size)


class _Words:
    """Hashes of words for duplicate detection, which ignore case, punctuation and digits.

    A word or text of the bytes b₀ b₁ … has the hash Σ code(bᵢ)·mⁱ⁺¹ modulo 2⁶⁴, mixed. The terms of
    all bytes are computed with the powers of a single run; each sum is then divided by mˢ, where s
    is the position of its first byte: m is odd, so it has an inverse.
    """

    def __init__(self, texts: pa.Array) -> None:
        content = _normalize(texts)
        bare = pc.equal(pc.utf8_trim_whitespace(content), "")
        if pc.any(bare).as_py():  # nothing but digits and punctuation: compared as they are
            content = pc.if_else(bare, texts, content)
        are_codes = _consist_of_codes(texts, content)
        if pc.any(are_codes).as_py():
            content = pc.if_else(are_codes, _normalize(texts, _REMOVED_FROM_CODES), content)
        content, self._starts = text_bytes(content)
        self._is_letter = content > SPACE
        letters = content[self._is_letter]
        self._terms = _BYTE_CODES[letters] * _powers(_MULTIPLIERS[3], len(letters))
        self._letters_before = np.concatenate([[0], np.cumsum(self._is_letter)])

    def text_keys(self) -> Hashes:
        """Return a hash of each text (n,), equal for exact duplicates and 0 for an empty text."""
        starts = self._letters_before[self._starts]
        hashes = np.zeros(len(starts) - 1, np.uint64)
        has_letters = np.diff(starts) > 0
        hashes[has_letters] = self._hash_runs(starts[:-1][has_letters])
        return hashes

    def trigrams(self) -> tuple[Hashes, Rows]:
        """Return the hashes of all word 3-grams, and for each 3-gram the index of its text."""
        begins = np.flatnonzero(word_starts(self._is_letter, self._starts))
        if len(begins) < 3:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        words = self._hash_runs(self._letters_before[begins])
        counts = np.diff(np.searchsorted(begins, self._starts))
        text_of_word = np.repeat(np.arange(len(counts)), counts)
        a, b, c, _ = _MULTIPLIERS
        hashes = _mix(words[:-2] * a + words[1:-1] * b + words[2:] * c)
        inside = text_of_word[:-2] == text_of_word[2:]
        return hashes[inside], text_of_word[:-2][inside]

    def _hash_runs(self, starts: Rows) -> Hashes:
        """Hash words or texts for duplicate detection, given the index of each first letter."""
        if not len(starts):
            return np.zeros(0, np.uint64)
        inverse = np.uint64(pow(int(_MULTIPLIERS[3]), -1, 1 << 64))
        powers = np.concatenate([np.ones(1, np.uint64), _powers(inverse, int(starts[-1]))])
        hashes: Hashes = _mix(np.add.reduceat(self._terms, starts) * powers[starts])
        return hashes


def _powers(base: np.uint64, count: int) -> Hashes:
    """Return the powers base¹, base², … modulo 2⁶⁴, used to hash texts that may be duplicates."""
    powers: Hashes = np.cumprod(np.full(count, base), dtype=np.uint64)
    return powers


def _consist_of_codes(texts: pa.Array, normalized: pa.Array) -> pa.Array:
    """Return whether most words of each text are codes such as ``w17``, whose digits are kept.

    Without their digits, such texts would all be duplicates.
    """
    codes = _count_codes(texts)
    with_codes = np.flatnonzero(codes)
    words = pc.count_substring_regex(normalized.take(pa.array(with_codes)), pattern="[^ ]+")
    are_codes = np.zeros(len(texts), bool)
    are_codes[with_codes] = 2 * codes[with_codes] > words.to_numpy(zero_copy_only=False)
    return pa.array(are_codes)


def _count_codes(texts: pa.Array) -> Rows:
    """Count the codes such as ``w17`` in each text (n,), that is, the letters before a digit."""
    content, starts = text_bytes(texts)
    digits = np.flatnonzero(_IS_DIGIT[content])
    digits = digits[(digits > 0) & _IS_LETTER[content[digits - 1]]]
    digits = np.setdiff1d(digits, starts)  # there, the letter is in the text before
    codes: Rows = np.diff(np.searchsorted(digits, starts))
    others = np.flatnonzero(~_are_ascii(texts))
    if len(others):
        found = pc.count_substring_regex(texts.take(pa.array(others)), pattern=_CODE)
        codes[others] = found.to_numpy(zero_copy_only=False)
    return codes


def _normalize(texts: pa.Array, removed: str = _REMOVED) -> pa.Array:
    """Lowercase texts and replace the characters that duplicate detection ignores with spaces."""
    content, starts = text_bytes(texts)
    table = _LOWER_LETTERS if removed == _REMOVED else _LOWER_CODES
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(table[content])]
    words = pa.Array.from_buffers(pa.large_string(), len(texts), buffers).cast(texts.type)
    others = ~_are_ascii(texts)
    if not others.any():
        return words
    rest = _normalize_unicode(texts.filter(pa.array(others)), removed)
    return pc.replace_with_mask(words, pa.array(others), rest)


def _are_ascii(texts: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.string_is_ascii(texts).to_numpy(zero_copy_only=False), bool)


def _normalize_unicode(texts: pa.Array, removed: str) -> pa.Array:
    lower = pc.utf8_lower(texts)
    words = pc.replace_substring_regex(lower, pattern=removed, replacement=" ")
    if (text_bytes(words)[0] < _THREE_BYTES).all():
        return words
    return pc.replace_substring_regex(words, pattern=_UNSPACED, replacement=r" \1 ")


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.uint8], Rows]:
    """Return the concatenated bytes of texts and the offset of each text, to find duplicates."""
    texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data or b"", np.uint8)[starts[0] : starts[-1]]
    return content, starts - starts[0]


def word_starts(is_letter: NDArray[np.bool_], starts: Rows) -> NDArray[np.bool_]:
    """Return a mask of the bytes at which a word starts, for duplicate detection.

    ``is_letter`` tells whether a byte is not a space; ``starts`` are the offsets of the texts.
    """
    begins = is_letter.copy()
    begins[1:] &= ~is_letter[:-1]
    firsts = starts[:-1][np.diff(starts) > 0]
    begins[firsts] = is_letter[firsts]
    return begins


def _run_starts(run: Rows) -> Rows:
    """Return where each text's run of 3-grams starts, given the text index of each 3-gram."""
    return np.flatnonzero(np.diff(run, prepend=-1))


def _mix(values: Hashes) -> Hashes:
    """Mix the bits of duplicate-detection hashes with the finalizer of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _minhash_bands(hashes: Hashes, text: Rows, texts: int) -> Hashes:
    """Compute the MinHash bands (texts, BANDS) of each text from its word 3-grams."""
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
    """Yield pairs of rows that may be near-duplicates because they share a MinHash band."""
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
    """Return whether each pair of texts shares enough word 3-grams to be near-duplicates."""
    alike = np.zeros(len(left), bool)
    lengths = 0
    start = 0
    sizes = pc.binary_length(texts.take(pa.array(np.concatenate([left, right]))))
    both = sizes.to_numpy().reshape(2, -1).sum(axis=0) if len(left) else np.empty(0)
    for end in range(1, len(left) + 1):  # as many pairs at once as fit into a block
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
