"""Compiled tokenizer: splits texts and looks up their words in C (``word_tokenizer.c``).

``TextEncoder`` does the same in Python where no C compiler was available. The rules for ASCII texts
are in C; Python splits the other texts and passes their words.
Shapes: n texts, N bytes of all texts, V words in the vocabulary.
"""

import ctypes
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.data.encoded_texts import EncodedTexts, FramedTexts
from lamatext.data.token_ids import TokenIds
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import RareWords, Vocabulary

NO_LIMIT = 2**63 - 1  # words of a text


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _Vocabulary(ctypes.Structure):
    """ctypes mirror of the C struct of a vocabulary."""

    _fields_ = [
        *_fields(ctypes.c_int64, "size capacity"),
        ("factor", ctypes.c_uint64),
        *_fields(ctypes.c_void_p, "bytes starts ids slots"),
    ]


class _Input(ctypes.Structure):
    """ctypes mirror of the C struct of texts to tokenize."""

    _fields_ = [
        *_fields(ctypes.c_void_p, "bytes starts are_words"),
        *_fields(ctypes.c_int64, "texts keep_unknown max_words last_words"),
    ]


class _Output(ctypes.Structure):
    """ctypes mirror of the C struct of the arrays that the tokenizer writes."""

    _fields_ = _fields(ctypes.c_void_p, "ids offsets known bounds lengths points")


@cache
def compiled_tokenizer() -> ctypes.CDLL | None:
    """Load the compiled tokenizer; return None if it is not built."""
    spec = find_spec("lamatext.data._tokenizer")
    if spec is None or spec.origin is None:
        return None
    code = ctypes.CDLL(spec.origin)
    code.build_slots.argtypes = [ctypes.c_void_p]
    code.build_slots.restype = None
    code.tokenize.argtypes = [ctypes.c_void_p] * 3
    code.tokenize.restype = ctypes.c_int64
    return code


class CompiledTokenizer:
    """Tokenizer and vocabulary in compiled C code; several threads may use one instance.

    Args:
        code: from ``compiled_tokenizer``.
        tokenizer: splits the texts that are not ASCII, and tells whether words are in lower case.
        vocabulary: the known words.
        rare_words: whether words outside the vocabulary are dropped.
        max_words: most ids of a text; None keeps all.
        last_words: how many of these are taken from the end of a longer text.

    Raises:
        ValueError: more words are to be taken from the end of a text than altogether.
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
        self._options = (rare_words == "unknown", *limits)
        self._code, self._tokenizer = code, tokenizer
        self._layout = self._vocabulary(vocabulary)
        code.build_slots(ctypes.addressof(self._layout))

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Leave the compiled tokenizer out of a pickle, as None; it is made again when needed."""
        return type(None), ()

    def _vocabulary(self, vocabulary: Vocabulary) -> _Vocabulary:
        words = [word.encode("utf-8", "surrogatepass") for word in vocabulary.ids]
        capacity = 1 << (2 * len(words) + 1).bit_length()
        slots = np.full((capacity, 2), -1, np.int32)
        ids = np.fromiter(vocabulary.ids.values(), np.int32, len(words))
        joined = np.frombuffer(b"".join(words), np.uint8)
        self._arrays = (joined, _starts(words), ids, slots)  # kept alive
        factor = int.from_bytes(os.urandom(8), "little") | 1
        return _Vocabulary(len(words), capacity, factor, *_pointers(self._arrays))

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Split texts into words, look them up, and return the words as code points too."""
        are_ascii = np.fromiter(map(str.isascii, texts), np.bool_, len(texts))
        pairs = zip(texts, are_ascii.tolist(), strict=True)
        parts = [text.encode() if is_ascii else self._words(text) for text, is_ascii in pairs]
        data, starts = b"".join(parts), _starts(parts)
        if self._tokenizer.lower:
            data = data.lower()
        size, count = len(data), len(texts)
        ids, offsets = np.empty(size + count, np.int32), np.empty(count + 1, np.int64)
        known, bounds = np.empty(count, np.int64), np.empty(count + 1, np.int64)
        lengths, points = np.empty(size, np.int64), np.empty(3 * size, np.uint32)
        inputs = (np.frombuffer(data, np.uint8), starts, ~are_ascii)
        outputs = (ids, offsets, known, bounds, lengths, points)
        layouts = (
            self._layout,
            _Input(*_pointers(inputs), count, *self._options),
            _Output(*_pointers(outputs)),
        )
        written = self._code.tokenize(*map(ctypes.addressof, layouts))
        return EncodedTexts(
            TokenIds(ids[: offsets[-1]], offsets),
            FramedTexts(points[:written], lengths[: bounds[-1]], bounds),
            np.diff(bounds),
            known,
        )

    def _words(self, text: str) -> bytes:
        """Return the words of a text, each on a line, in UTF-8."""
        return "\n".join(self._tokenizer.words(text)).encode("utf-8", "surrogatepass")


def _starts(parts: Sequence[bytes]) -> NDArray[np.int64]:
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=starts[1:])
    return starts


def _pointers(arrays: Iterable[NDArray[Any]]) -> list[int]:
    return [array.ctypes.data for array in arrays]
