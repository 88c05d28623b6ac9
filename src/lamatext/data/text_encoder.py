"""Text encoder: texts to the word ids that a network reads, with the position of each word."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from lamatext.data.token_ids import UNK, Ids, TokenIds
from lamatext.data.tokenizer import Span, Tokenizer
from lamatext.data.vocabulary import Vocabulary

RareWords = Literal["drop", "unknown"]
T = TypeVar("T")


class Encoder(Protocol):
    """Interface of a text encoder: ``TextEncoder`` for words, ``SubwordEncoder`` for subwords."""

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """Encode each text as the token ids that the network reads."""
        ...

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text; return its token ids and the character span of each token."""
        ...


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """Text encoder with a word tokenizer and a vocabulary."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary
    rare_words: RareWords = "drop"  # what happens to words outside the vocabulary
    max_words: int | None = None  # a longer text is shortened; None keeps all words
    last_words: int = 0  # how many of ``max_words`` are taken from the end of a long text

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """Encode each text as word ids; a text without any known word becomes one unknown word."""
        return self.encode_words(map(self.tokenizer.words, texts))

    def encode_words(self, texts: Iterable[Sequence[str]]) -> TokenIds:
        """Encode texts that are already split into words as word ids."""
        return TokenIds.from_lists([self._ids(words) for words in texts])

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text; return its word ids and the character span of each of those words."""
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
        """Return the first and the last words of a text that is too long for the text encoder."""
        if self.max_words is None or len(items) <= self.max_words:
            return items
        return items[: self.max_words - self.last_words] + items[len(items) - self.last_words :]
