"""A tiny random BERT as Hugging Face saves it."""

from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "##s", "!"]


def save_bert(folder: Path, *, positions: int = 12, limit: int = 12, seed: int = 0) -> str:
    """An encoder with so many positions, and a tokenizer that cuts texts at ``limit`` subwords."""
    transformers: Any = pytest.importorskip("transformers", reason="needs the extra bert")
    folder.mkdir(exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = transformers.BertTokenizerFast(str(vocabulary), model_max_length=limit)
    tokenizer.save_pretrained(folder)
    return str(folder)
