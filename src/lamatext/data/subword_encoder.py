"""Subword encoder: texts to the subword ids of a pretrained model, from ``tokenizer.json``."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from lamatext.data.token_ids import Ids, TokenIds
from lamatext.data.tokenizer import Span, encodable
from lamatext.errors import require

CHUNK = 1024  # texts tokenized in one call, on all cores


class SubwordEncoder:
    """Subword encoder with a Hugging Face tokenizer, including its special tokens."""

    def __init__(self, tokenizer: Any, max_words: int | None = None) -> None:
        """Wrap a ``tokenizers.Tokenizer``; ``max_words`` None keeps its own length limit."""
        tokenizer.no_padding()
        if max_words is not None:
            tokenizer.enable_truncation(max_words)
        self._tokenizer = tokenizer

    @classmethod
    def from_json(cls, text: str, max_words: int | None = None) -> "SubwordEncoder":
        """Create a subword encoder from the text of a ``tokenizer.json``."""
        tokenizers = require("tokenizers", extra="bert", purpose="the model bert")
        return cls(tokenizers.Tokenizer.from_str(text), max_words)

    def to_json(self) -> str:
        """Return the ``tokenizer.json`` of the subword encoder, including the length limit."""
        text: str = self._tokenizer.to_str()
        return text

    def __len__(self) -> int:
        """Return the number of subwords in the vocabulary of the pretrained tokenizer."""
        return int(self._tokenizer.get_vocab_size())

    @property
    def max_words(self) -> int | None:
        """The maximum number of subwords that the encoder reads of a text."""
        limit = self._tokenizer.truncation
        return None if limit is None else int(limit["max_length"])

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """Encode each text as subword ids."""
        rows: list[list[int]] = []
        remaining = map(encodable, texts)
        while chunk := list(islice(remaining, CHUNK)):
            rows += [encoding.ids for encoding in self._tokenizer.encode_batch_fast(chunk)]
        return TokenIds.from_lists(rows)

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text as subword ids and character spans, (0, 0) for special tokens."""
        encoding = self._tokenizer.encode(encodable(text))
        return np.array(encoding.ids, np.int32), list(encoding.offsets)
