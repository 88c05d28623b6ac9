"""Reading, tokenising and encoding: words a second against spaCy and CountVectorizer.

All read the same Parquet file. Ours does what training does, from the file to the ids of a
vocabulary; spaCy stops at its tokens, CountVectorizer at its matrix. Times are compared for the
same texts, so that cutting them into more words gains nothing.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Figure, in_turns
from lamatext.data.dataset import Dataset
from lamatext.data.sources import load
from lamatext.data.text_encoder import tokenise
from lamatext.data.token_ids import Ragged
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.errors import require

Baseline = Callable[[list[str]], object]


def figures(source: str = "imdb", *, texts: int = 4000, turns: int = 5) -> list[Figure]:
    """The ratio to each baseline; spaCy, which is slow, reads a tenth of the texts."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, place = load(source), Path(folder)
        many = _written(corpus, texts, place / "many.parquet")
        few = _written(corpus, max(texts // 10, 1), place / "few.parquet")
        return [
            _against("CountVectorizer", _count_vectorizer(), many, turns),
            _against("spaCy", _spacy(), few, turns),
        ]


def encoded(path: Path) -> Ragged:
    """The ids of a file's texts, by a vocabulary of the words that occur in it five times."""
    texts = load(str(path)).texts
    tokens = tokenise(texts, WordTokenizer())
    counts = tokens.counts(np.arange(len(texts)))
    return tokens.encode(Vocabulary.from_counts(tokens.types, counts, min_count=5))


def _against(name: str, baseline: Baseline, path: Path, turns: int) -> Figure:
    def theirs() -> object:
        return baseline(pq.read_table(path, columns=["text"]).column("text").to_pylist())

    words = len(tokenise(load(str(path)).texts, WordTokenizer()).rows.ids)
    seconds = in_turns({"ours": lambda: encoded(path), "theirs": theirs}, turns)
    speeds = {who: [words / taken for taken in times] for who, times in seconds.items()}
    ratios = [a / b for a, b in zip(speeds["ours"], speeds["theirs"], strict=True)]
    return Figure.of(
        f"words/s, {name}",
        ratios,
        speeds["ours"],
        speeds["theirs"],
        scale=1e-6,
        unit="M words/s",
        details={"words": words},
    )


def _count_vectorizer() -> Baseline:
    text = require("sklearn.feature_extraction.text", extra="train", purpose="CountVectorizer")
    return lambda texts: text.CountVectorizer(min_df=5).fit_transform(texts)


def _spacy() -> Baseline:
    split = require("spacy", extra="paper", purpose="spaCy in this benchmark").blank("en").tokenizer
    return lambda texts: [[token.lower_ for token in split(text)] for text in texts]


def _written(corpus: Dataset, texts: int, path: Path) -> Path:
    """Some of the texts, drawn at random, as a file of their own."""
    rows = np.random.default_rng(0).permutation(len(corpus))[:texts]
    some = corpus.take(rows)
    pq.write_table(pa.table({"text": some.texts, "label": some.labels}), path)
    return path
