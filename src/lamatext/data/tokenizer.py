"""Tokenizers: text to words, each with its character span in the original text."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Protocol

from lamatext.errors import require

Span = tuple[int, int]

# Scripts that are written without spaces: every character is a word.
_UNSPACED = "\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_MODIFIERS = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # skin tones; tags of regional flags
_FLAGS = "\U0001f1e6-\U0001f1ff"  # two of these letters form the flag of a country


class Tokenizer(Protocol):
    """Interface of a tokenizer: ``words`` and ``spans`` return the same words in the same order."""

    def words(self, text: str) -> list[str]:
        """Split a text into words, in lower case if the tokenizer is set so."""
        ...

    def spans(self, text: str) -> list[Span]:
        """Return the start and end character of each word that the tokenizer finds."""
        ...


class WordTokenizer:
    """Regular-expression tokenizer: runs of letters and digits; other characters on their own.

    Apostrophes inside a word belong to it.
    """

    def __init__(self, *, lower: bool = True) -> None:
        self.lower = lower

    def words(self, text: str) -> list[str]:
        """Split a text into words with the regular expression of the tokenizer."""
        if text.isascii():
            return _ascii_pattern().findall(text.lower() if self.lower else text)
        if not self.lower:
            return _full_pattern().findall(text)
        lowered = text.lower()
        if len(lowered) == len(text) and "Σ" not in text:
            return _full_pattern().findall(lowered)
        # Lower-casing changes the length or depends on neighbours: convert word by word.
        return [word.lower() for word in _full_pattern().findall(text)]

    def spans(self, text: str) -> list[Span]:
        """Return the character spans of the words that the regular expression matches."""
        pattern = _ascii_pattern() if text.isascii() else _full_pattern()
        return [match.span() for match in pattern.finditer(text)]


class SpacyTokenizer:
    """Tokenizer with spaCy's rules for English, as in the paper, without whitespace tokens."""

    def __init__(self, *, lower: bool = True) -> None:
        spacy = require("spacy", extra="paper", purpose="text.tokenizer = spacy")
        self.lower = lower
        self._split: Callable[[str], list[object]] = spacy.blank("en").tokenizer

    def words(self, text: str) -> list[str]:
        """Split a text into words with spaCy's tokenizer."""
        return [
            token.lower_ if self.lower else token.text  # type: ignore[attr-defined]
            for token in self._split(encodable(text))
            if not token.is_space  # type: ignore[attr-defined]
        ]

    def spans(self, text: str) -> list[Span]:
        """Return the character spans of the words that spaCy's tokenizer finds."""
        return [
            (token.idx, token.idx + len(token))  # type: ignore[attr-defined,arg-type]
            for token in self._split(encodable(text))
            if not token.is_space  # type: ignore[attr-defined]
        ]


def encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by "?"; tokenizer spans stay valid."""
    return text.encode("utf-8", "replace").decode("utf-8")


def make_tokenizer(name: str, *, lower: bool) -> Tokenizer:
    """Create the tokenizer that the setting ``text.tokenizer`` names."""
    return SpacyTokenizer(lower=lower) if name == "spacy" else WordTokenizer(lower=lower)


@cache
def _ascii_pattern() -> re.Pattern[str]:
    """Compile the word pattern for ASCII text: possessive quantifiers make it a third faster."""
    return re.compile(r"\w++(?:'\w++)*+|[^\w\s\x1c-\x1f]", re.ASCII)


@cache
def _full_pattern() -> re.Pattern[str]:
    """Compile the word pattern for Unicode: combining marks stay with their letter or emoji."""
    marks = _combining_marks()
    letter = rf"(?:[^\W{_UNSPACED}][{marks}]*)"
    sign = rf"[^\w\s](?:[{marks}{_MODIFIERS}]|\u200d[^\w\s])*"
    return re.compile(
        rf"{letter}+(?:['’\u200c\u200d]{letter}+)*|[{_UNSPACED}][{marks}]*|[{_FLAGS}]{{2}}|{sign}"
    )


def _combining_marks() -> str:
    """Return the combining marks of the basic plane for a character class in a word pattern."""
    return "".join(
        chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M"
    )
