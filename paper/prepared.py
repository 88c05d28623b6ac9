"""A data set as numbers, in one small file: what a machine without tokenizer and texts needs.

Words that occur fewer than ``min_count`` times in the training part can be in no vocabulary of the
protocol, so they are left out here already; the ids that come out are the same.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.atomic_write import replace_atomically
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load_dataset
from lamatext.data.token_ids import TokenIds
from lamatext.data.tokenized_texts import TokenizedTexts
from lamatext.progress import SILENT, Progress
from lamatext.recipes import load_recipe
from lamatext.settings import TextSettings
from lamatext.training.preparation import tokenize_texts

SUBWORDS = "@"  # NAME@minilm is the set NAME in the subwords of that pretrained encoder

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The training texts, then the test texts, and their classes."""

    name: str
    tokens: TokenizedTexts
    labels: Numbers  # (n,)
    trained: int  # the first so many rows are the training part
    classes: tuple[str, ...]

    def save(self, path: Path) -> None:
        """Write the file."""
        words = np.frombuffer(
            "\n".join(self.tokens.types).encode("utf-8", "surrogatepass"), np.uint8
        )
        small = np.uint16 if len(self.tokens.types) < 2**16 else np.int32
        with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(
                file,
                types=words,
                ids=self.tokens.rows.ids.astype(small),
                lengths=self.tokens.rows.lengths.astype(np.int32),
                labels=self.labels.astype(np.uint8),
                trained=np.array(self.trained),
                classes=np.array(self.classes),
            )


def load_prepared(
    name: str, folder: Path, progress: Progress = SILENT, *, texts: int | None = None
) -> Prepared:
    """The set from ``folder``; made there from the texts where it is not there yet.

    With ``texts`` only so many of each part, drawn at random, are prepared.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        dataset, _, encoder = name.partition(SUBWORDS)
        prepared = (
            prepare_subwords(dataset, encoder, texts)
            if encoder
            else prepare(dataset, load_recipe("paper").text, progress, texts=texts)
        )
        prepared.save(path)
        return prepared
    with np.load(path) as arrays:
        offsets = np.concatenate([[0], np.cumsum(arrays["lengths"], dtype=np.int64)])
        types = arrays["types"].tobytes().decode("utf-8", "surrogatepass").split("\n")
        rows = TokenIds(arrays["ids"].astype(np.int32), offsets)
        return Prepared(
            name,
            TokenizedTexts(tuple(types), rows),
            arrays["labels"].astype(np.int64),
            int(arrays["trained"]),
            tuple(str(label) for label in arrays["classes"]),
        )


def prepare(
    name: str, text: TextSettings, progress: Progress = SILENT, *, texts: int | None = None
) -> Prepared:
    """Both parts of a set, as words."""
    both, labels, trained = _both_parts(name, texts)
    tokens = tokenize_texts(both, text, progress)
    numbers, classes = _numbered(labels)
    kept = _without_rare(tokens, np.arange(trained), int(text.min_count))
    return Prepared(name, kept, numbers, trained, classes)


def prepare_subwords(name: str, encoder: str, texts: int | None = None) -> Prepared:
    """Both parts of a set, as the subwords of a pretrained encoder."""
    from lamatext.data.subword_encoder import SubwordEncoder
    from lamatext.nn.pretrained import load_pretrained

    both, labels, trained = _both_parts(name, texts)
    numbers, classes = _numbered(labels)
    loaded = load_pretrained(encoder, classes=len(classes))
    rows = SubwordEncoder.from_json(loaded.tokenizer, loaded.max_words).encode(both.to_pylist())
    return Prepared(
        f"{name}{SUBWORDS}{encoder}", TokenizedTexts((), rows), numbers, trained, classes
    )


def _both_parts(name: str, most: int | None) -> tuple[pa.ChunkedArray, list[str], int]:
    """The training texts, then the test texts; their labels; how many train."""
    train, test = (some(load_dataset(name, split=split), most) for split in ("train", "test"))
    texts = pa.chunked_array([*train.texts.chunks, *test.texts.chunks], pa.large_string())
    return texts, [*labels_of(train), *labels_of(test)], len(train)


def some(corpus: Dataset, most: int | None) -> Dataset:
    """At most so many texts, drawn at random; all of them, in their order, for None."""
    if most is None or len(corpus) <= most:
        return corpus
    return corpus.take(np.sort(np.random.default_rng(0).permutation(len(corpus))[:most]))


def labels_of(corpus: Dataset) -> list[str]:
    """The labels of the texts."""
    return [] if corpus.labels is None else corpus.labels.to_pylist()


def _numbered(labels: list[str]) -> tuple[Numbers, tuple[str, ...]]:
    encoder = LabelEncoder.fit(labels)
    return encoder.encode(labels), tuple(encoder.names)


def _without_rare(tokens: TokenizedTexts, rows: Numbers, min_count: int) -> TokenizedTexts:
    kept = tokens.counts(rows) >= min_count
    renumbered = np.cumsum(kept) - 1
    words = kept[tokens.rows.ids]  # (N,)
    running = np.concatenate([[0], np.cumsum(words)])
    ids = renumbered[tokens.rows.ids[words]].astype(np.int32)
    types = tuple(tokens.types[i] for i in np.flatnonzero(kept))
    return TokenizedTexts(types, TokenIds(ids, running[tokens.rows.offsets]))
