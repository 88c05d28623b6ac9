"""Tokenizers: splitting texts into words with character spans, and storing tokenized texts."""

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.dataset import text_batches
from lamatext.data.token_ids import UNK, Indices, TokenIds
from lamatext.data.vocabulary import RareWords, Vocabulary
from lamatext.errors import require
from lamatext.progress import SILENT, Progress

Span = tuple[int, int]
COUNTED = 500_000  # tokenized texts whose words are counted at once
PART = 10_000  # tokenized texts that are encoded at once

TOKENIZER_VERSION = 2  # of the rules of ``WordTokenizer``; saved models keep the version they have

# Scripts that are written without spaces: every character is a word.
_IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Thai, Lao, Khmer and Burmese, without digits: every grapheme cluster is a word (version 2).
_SOUTHEAST_ASIAN = (
    "\u0e01-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf\u1780-\u17d3\u17d7-\u17dd"
    "\u1000-\u103f\u104e-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
)
UNSPACED = _IDEOGRAPHS + _SOUTHEAST_ASIAN  # characters of scripts that are written without spaces
_STACKERS = "\u1039\u17d2"  # signs of Burmese and Khmer that write the next letter below the last
_VOWEL_AM = "\u0e33\u0eb3"  # vowel of Thai and Lao: a letter that belongs to the one before
_YAMAKKAN = "\u0ece"  # Lao mark that Unicode 14, and thus Python 3.11, does not know
_VARIATION_SELECTORS = "\U000e0100-\U000e01ef"  # marks that choose a variant of an ideograph
_JOINERS = "\u200c\u200d"  # zero width non-joiner and joiner

_MODIFIERS = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # skin tones; tags of regional flags
_FLAGS = "\U0001f1e6-\U0001f1ff"  # two of these letters form the flag of a country


class Tokenizer(Protocol):
    """Interface of the tokenizers, which split a text into words and return their positions.

    ``words`` and ``spans`` return the same words in the same order.
    """

    def words(self, text: str) -> list[str]:
        """Split a text into words, in lower case if the tokenizer is configured to do so."""
        ...

    def spans(self, text: str) -> list[Span]:
        """Return the character span of each word that the tokenizer finds in a text."""
        ...


class WordTokenizer:
    """Tokenizer that splits a text into words with a regular expression.

    A word is a run of letters and digits, with apostrophes inside it; any other character is a word
    of its own. In scripts without spaces every letter is a word. Combining marks and joiners stay
    with their letter. Version 1, of older saved models, does not split Thai, Lao, Khmer and
    Burmese, and separates joiners at the end of a word and marks outside the basic multilingual
    plane.
    """

    def __init__(self, *, lower: bool = True, version: int = TOKENIZER_VERSION) -> None:
        self.lower = lower
        self.version = version

    def words(self, text: str) -> list[str]:
        """Split a text into words with the tokenizer's regular expression."""
        if text.isascii():
            return _ascii_pattern().findall(text.lower() if self.lower else text)
        if not self.lower:
            return _full_pattern(self.version).findall(text)
        lowered = text.lower()
        if len(lowered) == len(text) and "Σ" not in text:
            return _full_pattern(self.version).findall(lowered)
        # Lower-casing changes the length or depends on neighbours: convert word by word.
        return [word.lower() for word in _full_pattern(self.version).findall(text)]

    def spans(self, text: str) -> list[Span]:
        """Return the character span of each match of the tokenizer's regular expression."""
        pattern = _ascii_pattern() if text.isascii() else _full_pattern(self.version)
        return [match.span() for match in pattern.finditer(text)]


class SpacyTokenizer:
    """Tokenizer that applies spaCy's rules for English and drops whitespace tokens.

    It is the tokenizer that the paper uses.
    """

    def __init__(self, *, lower: bool = True) -> None:
        spacy = require("spacy", extra="paper", purpose="text.tokenizer = spacy")
        self.lower = lower
        self._split: Callable[[str], list[Any]] = spacy.blank("en").tokenizer

    def words(self, text: str) -> list[str]:
        """Split a text into words with the spaCy tokenizer."""
        return [token.lower_ if self.lower else token.text for token in self._tokens(text)]

    def spans(self, text: str) -> list[Span]:
        """Return the character span of each word that the spaCy tokenizer finds in a text."""
        return [(token.idx, token.idx + len(token)) for token in self._tokens(text)]

    def _tokens(self, text: str) -> list[Any]:
        return [token for token in self._split(encodable(text)) if not token.is_space]


def encodable(text: str) -> str:
    """Replace lone surrogates with "?" before tokenizing a text, since UTF-8 cannot encode them.

    The length does not change, so the spans of the words stay valid.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def make_tokenizer(
    name: str, *, lower: bool, version: int = TOKENIZER_VERSION
) -> "SpacyTokenizer | WordTokenizer":
    """Create the tokenizer that is selected by the setting ``text.tokenizer``."""
    if name == "spacy":
        return SpacyTokenizer(lower=lower)
    return WordTokenizer(lower=lower, version=version)


Script = Literal["ideographs", "katakana", "letters"]


def unspaced_script(word: str) -> Script | None:
    """Return which kind of script without spaces, such as Chinese, a tokenized word is written in.

    Return None for a word in a script with spaces, a number or a sign.
    """
    if word[:1] < "\u0e01" or not _unspaced_letter().match(word):
        return None
    if "\u30a0" <= word[0] <= "\u30ff":
        return "katakana"
    is_hiragana = "\u3040" <= word[0] <= "\u309f"
    return "letters" if is_hiragana or _southeast_asian_letter().match(word) else "ideographs"


@cache
def _southeast_asian_letter() -> re.Pattern[str]:
    return re.compile(f"[{_SOUTHEAST_ASIAN}]")


@cache
def _unspaced_letter() -> re.Pattern[str]:
    return re.compile(f"[{_IDEOGRAPHS}{_SOUTHEAST_ASIAN}]")


def is_unspaced(text: str) -> bool:
    """Return whether most letters of a text are in scripts that are written without spaces.

    The tokenizer splits such scripts into single letters with their marks.
    """
    return 2 * len(_unspaced_letter().findall(text)) > sum(map(str.isalpha, text))


@cache
def _ascii_pattern() -> re.Pattern[str]:
    """Compile the tokenizer's regular expression for ASCII text.

    Possessive quantifiers make it a third faster.
    """
    return re.compile(r"\w++(?:'\w++)*+|[^\w\s\x1c-\x1f]", re.ASCII)


@cache
def _full_pattern(version: int) -> re.Pattern[str]:
    """Compile the tokenizer's regular expression for Unicode text.

    Combining marks and joiners stay with their letter or emoji.
    """
    if version == 1:
        marks = _combining_marks(range(0x300, 0x10000))
        letters = rf"(?:[^\W{_IDEOGRAPHS}][{marks}]*)+"
        cluster = rf"[{_IDEOGRAPHS}][{marks}]*"
        sign = rf"[^\w\s](?:[{marks}{_MODIFIERS}]|\u200d[^\w\s])*"
        inner = rf"['’{_JOINERS}]"
    else:
        basic = _combining_marks(range(0x300, 0x10000)) + _YAMAKKAN + _JOINERS
        others = _combining_marks(range(0x10000, 0x1F000)) + _VARIATION_SELECTORS
        other = rf"(?=[\U00010000-\U000e01ef])[{others}]"  # rare, so one comparison comes first
        unspaced = _IDEOGRAPHS + _SOUTHEAST_ASIAN
        letters = rf"[^\W{unspaced}]++(?:(?:[{basic}]|{other})++[^\W{unspaced}]*+)*+"
        cluster = (
            rf"[{unspaced}](?:[{_STACKERS}][{_SOUTHEAST_ASIAN}]|[{basic}{_VOWEL_AM}]|{other})*+"
        )
        sign = rf"[^\w\s](?:\u200d[^\w\s]|[{basic}{_MODIFIERS}]|{other})*+"
        inner = "['’]"
    return re.compile(rf"{letters}(?:{inner}{letters})*|{cluster}|[{_FLAGS}]{{2}}|{sign}")


def _combining_marks(codes: range) -> str:
    """Return the Unicode combining marks in a code point range, for the tokenizer's pattern.

    They are ranges such as ``\u0300-\u036f``, in the form of a character class.
    """
    marks = [code for code in codes if unicodedata.category(chr(code))[0] == "M"]
    starts = [code for code, last in zip(marks, [0, *marks], strict=False) if code != last + 1]
    ends = [code for code, after in zip(marks, [*marks[1:], 0], strict=True) if code + 1 != after]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """Tokenized texts of a dataset, with each distinct word stored only once.

    A word of a text is stored as its position in ``types``.
    """

    types: tuple[str, ...]  # the distinct words, in order of first appearance
    rows: TokenIds  # for each text the positions of its words in ``types``

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "TokenizedTexts":
        """Restore tokenized texts from the arrays that ``to_arrays`` returned."""
        text = arrays["types"].tobytes().decode("utf-8", "surrogatepass")
        offsets = np.concatenate([[0], np.cumsum(arrays["lengths"], dtype=np.int64)])
        rows = TokenIds(arrays["ids"].astype(np.int32), offsets)
        return cls(tuple(text.split("\n")) if text else (), rows)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Convert tokenized texts to arrays that can be saved in a file.

        The arrays are the distinct words, the word ids and the text lengths.
        """
        words = "\n".join(self.types).encode("utf-8", "surrogatepass")
        types = np.frombuffer(words, np.uint8)
        return {"types": types, "ids": self.rows.ids, "lengths": self.rows.lengths}

    def counts(self, rows: Indices) -> Indices:
        """Count how often each distinct word occurs in the given tokenized texts."""
        total = np.zeros(len(self.types), np.int64)
        for start in range(0, len(rows), COUNTED):
            ids = self.rows.take(rows[start : start + COUNTED]).ids
            total += np.bincount(ids, minlength=len(self.types))
            self.rows.release_pages()
        return total

    def words(self, rows: Indices) -> list[list[str]]:
        """Return the words of the given tokenized texts as strings."""
        types = self.types
        return [[types[i] for i in self.rows[row]] for row in rows]

    def encode(
        self,
        vocabulary: Vocabulary,
        *,
        rare_words: RareWords = "drop",
        max_words: int | None = None,
        last_words: int = 0,
    ) -> TokenIds:
        """Encode the tokenized texts as vocabulary ids, without converting them back to strings.

        The result equals that of ``TextEncoder.encode``.
        """
        table = np.array([vocabulary.ids.get(word, UNK) for word in self.types] or [UNK], np.int32)
        parts = (
            _shorten(TokenIds(table[part.ids], part.offsets), rare_words, max_words, last_words)
            for part in self._parts()
        )
        if isinstance(self.rows.ids, np.memmap):  # into a file next to that of the words
            return TokenIds.write(Path(str(self.rows.ids.filename)).with_suffix(".encoded"), parts)
        return TokenIds.concatenate(list(parts))

    def _parts(self) -> Iterator[TokenIds]:
        """Yield the tokenized texts in chunks, to limit the memory for encoding them."""
        offsets = self.rows.offsets
        for first in range(0, len(self.rows), PART):
            part = offsets[first : first + PART + 1]
            yield TokenIds(self.rows.ids[part[0] : part[-1]], part - part[0])
            self.rows.release_pages()


def _shorten(
    rows: TokenIds, rare_words: RareWords, max_words: int | None, last_words: int
) -> TokenIds:
    """Drop unknown words and the middle of long texts after tokenizing, if so configured."""
    if rare_words == "drop":
        rows = rows.filter(rows.ids != UNK)
    if max_words is not None and rows.lengths.max(initial=0) > max_words:
        position = np.arange(len(rows.ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
        to_end = np.repeat(rows.offsets[1:], rows.lengths) - np.arange(len(rows.ids))
        is_short = np.repeat(rows.lengths <= max_words, rows.lengths)
        is_first = position < max_words - last_words
        rows = rows.filter(is_short | is_first | (to_end <= last_words))
    return _fill_empty_texts(rows)


def tokenize(
    texts: pa.ChunkedArray, tokenizer: Tokenizer, progress: Progress = SILENT
) -> TokenizedTexts:
    """Split every text of a column into words with the given tokenizer.

    The distinct words are numbered in order of first appearance.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids, ends = array("i"), array("q", [0])
    progress.stage("tokenizing", len(texts))
    for batch in text_batches(texts):
        for text in batch.to_pylist():
            ids.extend(map(numbers.__getitem__, tokenizer.words(text)))
            ends.append(len(ids))
        progress.advance(len(batch))
    return TokenizedTexts(
        tuple(numbers), TokenIds(np.frombuffer(ids, np.int32), np.frombuffer(ends, np.int64))
    )


def _fill_empty_texts(rows: TokenIds) -> TokenIds:
    """Insert the unknown-word id into every tokenized text that has no words."""
    empty = np.flatnonzero(rows.lengths == 0)
    if not len(empty):
        return rows
    ids = np.insert(rows.ids, rows.offsets[empty], UNK)
    inserted = np.concatenate([[0], np.cumsum(rows.lengths == 0)])
    return TokenIds(ids, rows.offsets + inserted)
