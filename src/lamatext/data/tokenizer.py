"""Text to words, each with its place in the original text."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Protocol

from lamatext.errors import require

Span = tuple[int, int]

# Scripts written without spaces: every character is a word.
_UNSPACED = "\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_MODIFIERS = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # skin tones; tags, of regions' flags
_FLAGS = "\U0001f1e6-\U0001f1ff"  # letters that make a country's flag in pairs


class Tokenizer(Protocol):
    """``words`` and ``spans`` run over the same words in the same order."""

    def words(self, text: str) -> list[str]:
        """The words, lower-cased if so set."""
        ...

    def spans(self, text: str) -> list[Span]:
        """Where each word stands in ``text``: start and end in characters."""
        ...


class WordTokenizer:
    """Runs of letters, marks and digits (with inner apostrophes); any other sign alone."""

    def __init__(self, *, lower: bool = True) -> None:
        self.lower = lower

    def words(self, text: str) -> list[str]:
        """The words of ``text``."""
        if text.isascii():
            return _ascii_pattern().findall(text.lower() if self.lower else text)
        if not self.lower:
            return _full_pattern().findall(text)
        lowered = text.lower()
        if len(lowered) == len(text) and "Σ" not in text:
            return _full_pattern().findall(lowered)
        # Lower-casing changed the length, or depends on the neighbours: a word at a time.
        return [word.lower() for word in _full_pattern().findall(text)]

    def spans(self, text: str) -> list[Span]:
        """Where the words stand in ``text``."""
        pattern = _ascii_pattern() if text.isascii() else _full_pattern()
        return [match.span() for match in pattern.finditer(text)]


class SpacyTokenizer:
    """spaCy's rules for English (the paper's choice), without white space."""

    def __init__(self, *, lower: bool = True) -> None:
        spacy = require("spacy", extra="paper", purpose="text.tokenizer = spacy")
        self.lower = lower
        self._split: Callable[[str], list[object]] = spacy.blank("en").tokenizer

    def words(self, text: str) -> list[str]:
        """The words of ``text``."""
        return [
            token.lower_ if self.lower else token.text  # type: ignore[attr-defined]
            for token in self._split(encodable(text))
            if not token.is_space  # type: ignore[attr-defined]
        ]

    def spans(self, text: str) -> list[Span]:
        """Where the words stand in ``text``."""
        return [
            (token.idx, token.idx + len(token))  # type: ignore[attr-defined,arg-type]
            for token in self._split(encodable(text))
            if not token.is_space  # type: ignore[attr-defined]
        ]


def encodable(text: str) -> str:
    """The text with "?" for lone surrogates, which have no UTF-8; every place stays the same."""
    return text.encode("utf-8", "replace").decode("utf-8")


def make_tokenizer(name: str, *, lower: bool) -> Tokenizer:
    """The tokenizer that ``text.tokenizer`` names."""
    return SpacyTokenizer(lower=lower) if name == "spacy" else WordTokenizer(lower=lower)


@cache
def _ascii_pattern() -> re.Pattern[str]:
    """The full pattern on ASCII: its own classes and no way back make it a third faster."""
    return re.compile(r"\w++(?:'\w++)*+|[^\w\s\x1c-\x1f]", re.ASCII)


@cache
def _full_pattern() -> re.Pattern[str]:
    """Letters keep their marks and inner joiners; an emoji or a flag is one sign, however built."""
    marks = _marks()
    letter = rf"(?:[^\W{_UNSPACED}][{marks}]*)"
    sign = rf"[^\w\s](?:[{marks}{_MODIFIERS}]|\u200d[^\w\s])*"
    return re.compile(
        rf"{letter}+(?:['’\u200c\u200d]{letter}+)*|[{_UNSPACED}][{marks}]*|[{_FLAGS}]{{2}}|{sign}"
    )


def _marks() -> str:
    """The combining marks of the basic plane, as the inside of a character class."""
    return "".join(
        chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M"
    )
