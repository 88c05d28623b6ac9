"""Texts to the subword ids of a pretrained encoder; the interface of ``TextEncoder``."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from lamatext.data.token_ids import Ids, TokenIds
from lamatext.data.tokenizer import Span, encodable
from lamatext.errors import require

CHUNK = 1024  # texts that are tokenised together, on all cores


class SubwordEncoder:
    """A Hugging Face ``tokenizer.json``, with the encoder's own first and last token."""

    def __init__(self, tokenizer: Any, max_words: int | None = None) -> None:
        """Take over a ``tokenizers.Tokenizer``; None keeps the limit that it brings."""
        tokenizer.no_padding()
        if max_words is not None:
            tokenizer.enable_truncation(max_words)
        self._tokenizer = tokenizer

    @classmethod
    def from_json(cls, text: str, max_words: int | None = None) -> "SubwordEncoder":
        """The encoder that ``to_json``, or anyone's ``tokenizer.json``, describes."""
        tokenizers = require("tokenizers", extra="bert", purpose="the model bert")
        return cls(tokenizers.Tokenizer.from_str(text), max_words)

    def to_json(self) -> str:
        """All there is to know of it, the limit included."""
        text: str = self._tokenizer.to_str()
        return text

    def __len__(self) -> int:
        """How many subwords there are."""
        return int(self._tokenizer.get_vocab_size())

    @property
    def max_words(self) -> int | None:
        """Subwords of a text beyond this many are not read."""
        limit = self._tokenizer.truncation
        return None if limit is None else int(limit["max_length"])

    def encode(self, texts: Iterable[str]) -> TokenIds:
        """The ids of each text."""
        rows: list[list[int]] = []
        rest = map(encodable, texts)
        while chunk := list(islice(rest, CHUNK)):
            rows += [found.ids for found in self._tokenizer.encode_batch_fast(chunk)]
        return TokenIds.from_lists(rows)

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """The ids of one text, and where in it each stands; (0, 0) for the two marks around it."""
        found = self._tokenizer.encode(encodable(text))
        return np.array(found.ids, np.int32), list(found.offsets)
