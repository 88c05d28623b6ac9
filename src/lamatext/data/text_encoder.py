"""Text encoders: conversion of texts to the word or subword ids that a network reads."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np

from lamatext.data.compiled_tokenizer import CompiledTokenizer, compiled_tokenizer
from lamatext.data.token_ids import UNK, EncodedTexts, Ids, Indices, TokenIds
from lamatext.data.tokenizer import Span, Tokenizer, WordTokenizer, encodable
from lamatext.data.vocabulary import RareWords, Vocabulary
from lamatext.errors import ModelError, require

CHUNK = 1024  # texts that a subword tokenizer encodes in one call, on all cores
T = TypeVar("T")


class Encoder(Protocol):
    """Interface of the text encoders, which convert texts to word or subword ids."""

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """Encode each text as token ids."""
        ...

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text and return its token ids with the character span of each token."""
        ...


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """Text encoder that splits texts into words and looks them up in a vocabulary."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary
    rare_words: RareWords = "drop"
    max_words: int | None = None  # a longer text is shortened; None keeps all words
    last_words: int = 0  # how many of ``max_words`` are taken from the end of a long text
    # Created on first use:
    compiled: CompiledTokenizer | None = field(init=False, repr=False, compare=False, default=None)

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """Encode each text as word ids; a text without known words becomes one unknown word."""
        return self.encode_words(map(self.tokenizer.words, texts))

    def encode_all(self, texts: Sequence[str], *, framed: bool) -> EncodedTexts:
        """Encode each text as word ids, and also return all its words, known and unknown.

        With ``framed``, compiled code splits the texts and looks up the words, which are returned
        as code points. Otherwise, or if the C code is not built or does not support the tokenizer,
        the words are lists of strings.
        """
        if framed and (compiled := self._compiled_tokenizer()) is not None:
            return compiled.encode(texts)
        words = [self.tokenizer.words(text) for text in texts]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        return EncodedTexts(self.encode_words(words), words, counts, self.count_known(words))

    def _compiled_tokenizer(self) -> CompiledTokenizer | None:
        code = compiled_tokenizer()
        if code is None or not isinstance(self.tokenizer, WordTokenizer):
            return None
        if self.max_words is not None and self.last_words > self.max_words:
            return None
        if self.compiled is None:
            compiled = CompiledTokenizer(
                code,
                self.tokenizer,
                self.vocabulary,
                self.rare_words,
                max_words=self.max_words,
                last_words=self.last_words,
            )
            object.__setattr__(self, "compiled", compiled)
        return self.compiled

    def encode_words(self, texts: Iterable[Sequence[str]]) -> TokenIds:
        """Encode texts that are already tokenized as word ids."""
        return TokenIds.from_lists([self._ids(words) for words in texts])

    def count_known(self, texts: Sequence[Sequence[str]]) -> Indices:
        """Count the words of each text that are in the text encoder's vocabulary."""
        is_known = self.vocabulary.ids.__contains__
        return np.fromiter((sum(map(is_known, words)) for words in texts), np.int64, len(texts))

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text and return its word ids with the character span of each word."""
        known, word_spans = self.vocabulary.ids, self.tokenizer.spans(text)
        ids, spans = [], []
        for word, span in zip(self.tokenizer.words(text), word_spans, strict=True):
            word_id = known.get(word, UNK)
            if word_id != UNK or self.rare_words == "unknown":
                ids.append(word_id)
                spans.append(span)
        if not ids:
            return np.array([UNK], np.int32), [(0, 0)]
        return np.array(self._shorten(ids), np.int32), self._shorten(spans)

    def _ids(self, words: Sequence[str]) -> list[int]:
        known = self.vocabulary.ids
        if self.rare_words == "drop":
            ids = list(filter(None, map(known.get, words)))  # no word has the id 0
        else:
            ids = [known.get(word, UNK) for word in words]
        return self._shorten(ids) or [UNK]

    def _shorten(self, items: list[T]) -> list[T]:
        """Truncate a text that is too long for the text encoder to its first and last words."""
        if self.max_words is None or len(items) <= self.max_words:
            return items
        return items[: self.max_words - self.last_words] + items[len(items) - self.last_words :]


class SubwordEncoder:
    """Text encoder that splits texts into subwords with a Hugging Face tokenizer.

    The special tokens of the tokenizer are included.
    """

    def __init__(self, tokenizer: Any, max_words: int | None = None) -> None:
        """Create a subword encoder; if ``max_words`` is None, the tokenizer's limit applies."""
        tokenizer.no_padding()
        if max_words is not None:
            tokenizer.enable_truncation(max_words)
        self._tokenizer = tokenizer

    @classmethod
    def from_json(cls, text: str, max_words: int | None = None) -> "SubwordEncoder":
        """Create a subword encoder from the content of a ``tokenizer.json`` file."""
        tokenizers = require("tokenizers", extra="bert", purpose="the model bert")
        return cls(tokenizers.Tokenizer.from_str(text), max_words)

    def to_json(self) -> str:
        """Return the content of a ``tokenizer.json`` file for the subword encoder."""
        text: str = self._tokenizer.to_str()
        return text

    def __len__(self) -> int:
        """Return the vocabulary size of the subword encoder."""
        return int(self._tokenizer.get_vocab_size())

    def subwords(self) -> list[str]:
        """Return all subwords in the text encoder's vocabulary, in the order of their ids."""
        by_word: dict[str, int] = self._tokenizer.get_vocab()
        return sorted(by_word, key=by_word.__getitem__)

    @property
    def max_words(self) -> int | None:
        """Return the number of subwords to which the text encoder truncates texts, or None."""
        limit = self._tokenizer.truncation
        return None if limit is None else int(limit["max_length"])

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """Encode each text as subword ids with the Hugging Face tokenizer."""
        rows: list[list[int]] = []
        remaining = map(encodable, texts)
        while chunk := list(islice(remaining, CHUNK)):
            with _damage_named():
                rows += [encoding.ids for encoding in self._tokenizer.encode_batch_fast(chunk)]
        return TokenIds.from_lists(rows)

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text as subword ids with character spans, (0, 0) for special tokens."""
        with _damage_named():
            encoding = self._tokenizer.encode(encodable(text))
        return np.array(encoding.ids, np.int32), list(encoding.offsets)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Convert errors of Hugging Face tokenizers to a ModelError about a damaged tokenizer.json."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"tokenizer.json: damaged, a text cannot be split into subwords: {str(error)[:200]}. "
            "Copy the folder again."
        ) from error
