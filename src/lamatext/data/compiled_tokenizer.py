"""Compiled tokenizer: splits texts and looks up their words in C (``word_tokenizer.c``).

``TextEncoder`` does the same in Python where no C compiler was available. The rules for ASCII texts
are in C; Python splits the other texts and passes their words.
Shapes: n texts, N bytes of all texts, V words in the vocabulary.
"""

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import accumulate

import numpy as np

from lamatext.data.token_ids import EncodedTexts, FramedTexts, TokenIds
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import RareWords, Vocabulary

NO_LIMIT = 2**63 - 1  # words of a text


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _Encoder(ctypes.Structure):
    """ctypes mirror of the C struct with the vocabulary and settings of the compiled tokenizer."""

    _fields_ = [
        *_fields(ctypes.c_int64, "keep_unknown max_words last_words size capacity"),
        ("factor", ctypes.c_uint64),
        *_fields(ctypes.c_void_p, "bytes starts ids slots"),
    ]


@cache
def compiled_tokenizer() -> ctypes.CDLL | None:
    """Load the compiled tokenizer (C library); return None if it was not built."""
    spec = find_spec("lamatext.data._tokenizer")
    if spec is None or spec.origin is None:
        return None
    code = ctypes.CDLL(spec.origin)
    code.build_slots.argtypes = [ctypes.c_void_p]
    code.build_slots.restype = None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    code.tokenize.argtypes = [pointer, ctypes.c_char_p, number, pointer, pointer, pointer]
    code.tokenize.restype = ctypes.c_int64
    return code


class CompiledTokenizer:
    """Thread-safe tokenizer in compiled C code that also looks up words in a vocabulary.

    Args:
        code: from ``compiled_tokenizer``.
        tokenizer: splits the texts that are not ASCII, and tells whether words are in lower case.
        vocabulary: the known words.
        rare_words: whether words outside the vocabulary are dropped.
        max_words: the maximum number of ids per text; None keeps all.
        last_words: how many of these are taken from the end of a longer text.

    Raises:
        ValueError: ``last_words`` is negative or greater than ``max_words``.
    """

    def __init__(
        self,
        code: ctypes.CDLL,
        tokenizer: WordTokenizer,
        vocabulary: Vocabulary,
        rare_words: RareWords,
        *,
        max_words: int | None,
        last_words: int,
    ) -> None:
        if max_words is not None and not 0 <= last_words <= max_words:
            raise ValueError(f"expected at most {max_words} last words, got {last_words}")
        limits = (NO_LIMIT, 0) if max_words is None else (max_words, last_words)
        self._code, self._tokenizer = code, tokenizer
        self._layout = _Encoder(rare_words == "unknown", *limits, *self._vocabulary(vocabulary))
        self._encoder = ctypes.addressof(self._layout)
        code.build_slots(self._encoder)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Pickle the compiled tokenizer as None, since it is recreated on demand."""
        return type(None), ()

    def _vocabulary(self, vocabulary: Vocabulary) -> list[int]:
        """Convert the vocabulary to fields of the compiled tokenizer's C struct ``_Encoder``."""
        words = [word.encode("utf-8", "surrogatepass") for word in vocabulary.ids]
        capacity = 1 << (2 * len(words) + 1).bit_length()
        slots = np.full((capacity, 2), -1, np.int32)
        ids = np.fromiter(vocabulary.ids.values(), np.int32, len(words))
        starts = np.cumsum([0, *map(len, words)], dtype=np.int64)
        joined = np.frombuffer(b"".join(words), np.uint8)
        self._arrays = (joined, starts, ids, slots)  # kept alive
        factor = int.from_bytes(os.urandom(8), "little") | 1
        return [len(words), capacity, factor, *(array.ctypes.data for array in self._arrays)]

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Tokenize texts with the compiled C code and return their words and word ids."""
        are_ascii = [text.isascii() for text in texts]
        pairs = zip(texts, are_ascii, strict=True)
        parts = [text.encode() if is_ascii else self._words(text) for text, is_ascii in pairs]
        data, count = b"".join(parts), len(parts)
        size = len(data)
        if self._tokenizer.lower:
            data = data.lower()
        numbers = np.empty(5 * count + 3 + size, np.int64)  # one array: each costs time to pass
        numbers[0] = 0
        numbers[1 : count + 1] = [*accumulate(map(len, parts))]
        numbers[count + 1 : 2 * count + 1] = [not is_ascii for is_ascii in are_ascii]
        ids = np.empty(size + count, np.int32)
        points = np.empty(3 * size, np.uint32)
        pointers = (numbers.ctypes.data, ids.ctypes.data, points.ctypes.data)
        written = self._code.tokenize(self._encoder, data, count, *pointers)
        offsets = numbers[2 * count + 1 : 3 * count + 2]
        bounds = numbers[4 * count + 2 : 5 * count + 3]
        lengths = numbers[5 * count + 3 : 5 * count + 3 + bounds[-1]]
        return EncodedTexts(
            TokenIds(ids[: offsets[-1]], offsets),
            FramedTexts(points[:written], lengths, bounds),
            bounds[1:] - bounds[:-1],
            numbers[3 * count + 2 : 4 * count + 2],
        )

    def _words(self, text: str) -> bytes:
        """Tokenize a non-ASCII text in Python and return its words as UTF-8, one per line."""
        return "\n".join(self._tokenizer.words(text)).encode("utf-8", "surrogatepass")
