"""The paper's data sets as token ids in one small file each, and their statistics.

Words that occur fewer than ``min_count`` times in the training part cannot enter any vocabulary of
the protocol, so the file leaves them out; the resulting ids are the same. A machine without the
tokenizer and the texts needs only these files.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.atomic_write import replace_atomically
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.token_ids import TokenIds
from lamatext.data.tokenizer import TokenizedTexts
from lamatext.errors import DataError
from lamatext.progress import SILENT
from lamatext.recipes import load_recipe
from lamatext.training.preparation import tokenize_texts
from paper.markdown import MISSING, markdown_table
from paper.official_datasets import (
    SUBSTITUTES,
    load_paper_dataset,
    pretrained_folder,
    sample_at_most,
)
from paper.published_results import STATISTICS
from paper.records import Record, Records

SUBWORDS = "@"  # NAME@minilm is the data set NAME in the subwords of that pretrained encoder
STATISTIC_NAMES = ("classes", "train", "test", "words")

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenizedDataset:
    """The training texts of a data set followed by its test texts, as token ids with labels."""

    name: str
    tokens: TokenizedTexts
    labels: Labels  # (n,) class indices
    train_size: int  # the first rows are the training part
    classes: tuple[str, ...]

    @property
    def test_rows(self) -> Labels:
        """Row indices of the data set's test part."""
        return np.arange(self.train_size, len(self.labels))

    def save(self, path: Path) -> None:
        """Write the tokenized data set as a compressed ``.npz`` file."""
        arrays = self.tokens.to_arrays()
        id_type = np.uint16 if len(self.tokens.types) < 2**16 else np.int32
        with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(
                file,
                types=arrays["types"],
                ids=arrays["ids"].astype(id_type),
                lengths=arrays["lengths"],
                labels=self.labels.astype(np.uint8),
                trained=np.array(self.train_size),
                classes=np.array(self.classes),
            )


def load_tokenized(name: str, folder: Path, *, max_texts: int | None = None) -> TokenizedDataset:
    """Load a tokenized data set from ``folder``; if it is missing, tokenize the texts first.

    ``max_texts`` limits the training and the test part to that many random texts each.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        dataset_name, _, encoder = name.partition(SUBWORDS)
        tokenized = (
            tokenize_subwords(dataset_name, encoder, max_texts)
            if encoder
            else tokenize_words(dataset_name, max_texts)
        )
        tokenized.save(path)
        return tokenized
    with np.load(path) as arrays:
        return TokenizedDataset(
            name,
            TokenizedTexts.from_arrays(arrays),
            arrays["labels"].astype(np.int64),
            int(arrays["trained"]),
            tuple(str(label) for label in arrays["classes"]),
        )


def tokenize_words(name: str, max_texts: int | None = None) -> TokenizedDataset:
    """Tokenize the training and test texts of a data set into words, as the paper's recipe does."""
    settings = load_recipe("paper").text
    texts, labels, classes, train_size = _read_both_parts(name, max_texts)
    tokens = tokenize_texts(texts, settings, SILENT)
    frequent = _drop_rare_words(tokens, train_size, int(settings.min_count))
    return TokenizedDataset(name, frequent, labels, train_size, classes)


def tokenize_subwords(name: str, encoder: str, max_texts: int | None = None) -> TokenizedDataset:
    """Tokenize the texts of a data set into the subwords of a pretrained encoder."""
    from lamatext.data.text_encoder import SubwordEncoder
    from lamatext.nn.pretrained import load_pretrained

    texts, labels, classes, train_size = _read_both_parts(name, max_texts)
    weights = pretrained_folder(encoder) or encoder
    pretrained = load_pretrained(str(weights), classes=len(classes))
    subwords = SubwordEncoder.from_json(pretrained.tokenizer, pretrained.max_words)
    tokens = TokenizedTexts((), subwords.encode(texts.to_pylist()))
    return TokenizedDataset(f"{name}{SUBWORDS}{encoder}", tokens, labels, train_size, classes)


def read_parts(name: str, max_texts: int | None = None) -> tuple[Dataset, Dataset]:
    """Read the training and test part of a data set, at most ``max_texts`` random texts each."""
    train, test = (_load_part(name, split) for split in ("train", "test"))
    if max_texts is None:
        return train, test
    return sample_at_most(train, max_texts), sample_at_most(test, max_texts)


def _load_part(name: str, split: str) -> Dataset:
    dataset = load_paper_dataset(name, split)
    if name != "imdb":
        return dataset
    return replace(dataset, texts=remove_line_break_tags(dataset.texts))


def remove_line_break_tags(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace the HTML line breaks of IMDB, with the blanks around them, by one blank each.

    Tokenizers would join a tag with the words next to it.
    """
    return pc.replace_substring_regex(texts, r"\s*(?:<br\s*/?>\s*)+", " ")


def _read_both_parts(
    name: str, max_texts: int | None
) -> tuple[pa.ChunkedArray, Labels, tuple[str, ...], int]:
    train, test = read_parts(name, max_texts)
    texts = pa.chunked_array([*train.texts.chunks, *test.texts.chunks], pa.large_string())
    encoder = LabelEncoder.fit(train.require_labels())
    labels = [encoder.encode(part.require_labels(), place=part.place) for part in (train, test)]
    return texts, np.concatenate(labels), tuple(encoder.names), len(train)


def _drop_rare_words(tokens: TokenizedTexts, train_size: int, min_count: int) -> TokenizedTexts:
    frequent = tokens.counts(np.arange(train_size)) >= min_count
    new_ids = np.cumsum(frequent) - 1
    rows = tokens.rows.filter(frequent[tokens.rows.ids])
    types = tuple(tokens.types[i] for i in np.flatnonzero(frequent))
    return TokenizedTexts(types, TokenIds(new_ids[rows.ids].astype(np.int32), rows.offsets))


def count_datasets(records: Records, names: tuple[str, ...]) -> list[str]:
    """Record the statistics of each data set; return the names of those not available here."""
    missing = []
    for name in names:
        waiting = [
            Record("datasets", name, "", metric, 0.0, device="CPU") for metric in STATISTIC_NAMES
        ]
        if all(records.has(record.key) for record in waiting):
            continue
        try:
            values = _statistics(name)
        except DataError:
            missing.append(name)
            continue
        published = STATISTICS.get(name, (None,) * 4)
        records.add(
            replace(record, value=value, paper=paper).with_provenance()
            for record, value, paper in zip(waiting, values, published, strict=True)
        )
    return missing


def _statistics(name: str) -> tuple[float, ...]:
    texts, _, classes, train_size = _read_both_parts(name, None)
    words = tokenize_texts(texts, load_recipe("paper").text, SILENT).rows.lengths[:train_size]
    test_size = len(texts) - train_size
    return float(len(classes)), float(train_size), float(test_size), float(np.mean(words))


def count_test_texts(records: Records, dataset: str) -> int | None:
    """Return the number of test texts that the records give for a data set."""
    for record in records.of("datasets"):
        if (record.dataset, record.metric) == (dataset, "test"):
            return int(record.number)
    return None


def datasets_table(records: Records) -> str:
    """Format the data set statistics; the published numbers are in brackets."""
    by_statistic = {(r.dataset, r.metric): r for r in records.of("datasets")}

    def cell(dataset: str, column: int) -> str:
        record = by_statistic.get((dataset, STATISTIC_NAMES[column]))
        ours = MISSING if record is None else f"{record.number:,.0f}"
        published = STATISTICS.get(dataset)
        return ours if published is None else f"{ours} ({published[column]:,})"

    def row_title(dataset: str) -> str:
        replaced = SUBSTITUTES.get(dataset)
        return f"{dataset} (for {replaced})" if replaced else dataset

    names = dict.fromkeys([*STATISTICS, *(dataset for dataset, _ in by_statistic)])
    rows = [[row_title(name), *(cell(name, column) for column in range(4))] for name in names]
    return markdown_table(("data set", "classes", "train", "test", "mean words"), rows)
