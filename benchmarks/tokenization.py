"""Tokenization speed: reading, tokenizing and encoding texts, against spaCy and CountVectorizer.

All read the same Parquet file. lamatext does what training does, from the file to token ids; spaCy
stops at its tokens, CountVectorizer at its matrix. The ratio compares times for the same texts, so
splitting them into more words gains nothing.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.comparison import Comparison, time_alternating
from lamatext.data.dataset import Dataset
from lamatext.data.sources import load_dataset
from lamatext.data.token_ids import TokenIds
from lamatext.data.tokenizer import WordTokenizer, tokenize
from lamatext.data.vocabulary import Vocabulary
from lamatext.errors import require
from paper.official_datasets import load_paper_dataset

Tokenize = Callable[[list[str]], object]


def measure(source: str = "imdb", *, texts: int = 4000, rounds: int = 5) -> list[Comparison]:
    """Compare tokenization speed; spaCy, which is slow, reads a tenth of the texts."""
    with tempfile.TemporaryDirectory() as folder:
        dataset, place = load_paper_dataset(source), Path(folder)
        many = _write_sample(dataset, texts, place / "many.parquet")
        few = _write_sample(dataset, max(texts // 10, 1), place / "few.parquet")
        return [
            _compare("CountVectorizer", _count_vectorizer(), many, rounds),
            _compare("spaCy", _spacy(), few, rounds),
        ]


def encode_file(path: Path) -> TokenIds:
    """Tokenize and encode a file with a vocabulary of the words that occur in it five times."""
    texts = load_dataset(str(path)).texts
    tokens = tokenize(texts, WordTokenizer())
    counts = tokens.counts(np.arange(len(texts)))
    return tokens.encode(Vocabulary.from_counts(tokens.types, counts, min_count=5))


def _compare(name: str, run_baseline: Tokenize, path: Path, rounds: int) -> Comparison:
    def baseline() -> object:
        return run_baseline(pq.read_table(path, columns=["text"]).column("text").to_pylist())

    words = len(tokenize(load_dataset(str(path)).texts, WordTokenizer()).rows.ids)
    seconds = time_alternating({"ours": lambda: encode_file(path), "baseline": baseline}, rounds)
    ours, theirs = ([words / taken for taken in seconds[side]] for side in ("ours", "baseline"))
    return Comparison.throughput(
        f"words/s, {name}", (ours, theirs), "M words/s", scale=1e-6, details={"words": words}
    )


def _count_vectorizer() -> Tokenize:
    text = require("sklearn.feature_extraction.text", extra="train", purpose="CountVectorizer")
    return lambda texts: text.CountVectorizer(min_df=5).fit_transform(texts)


def _spacy() -> Tokenize:
    split = require("spacy", extra="paper", purpose="spaCy in this benchmark").blank("en").tokenizer
    return lambda texts: [[token.lower_ for token in split(text)] for text in texts]


def _write_sample(dataset: Dataset, texts: int, path: Path) -> Path:
    rows = np.random.default_rng(0).permutation(len(dataset))[:texts]
    sample = dataset.take(rows)
    pq.write_table(pa.table({"text": sample.texts, "label": sample.labels}), path)
    return path
