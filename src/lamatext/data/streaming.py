"""Streaming of data that is larger than memory: one pass turns its texts into token ids on disk.

A hash of each text, without case, punctuation and digits, decides whether it is a training,
validation or test text, so duplicates stay together (near-duplicates may not). Validation and test
texts are few enough for memory; of the training texts, memory holds the offsets, the labels, the
distinct words, and a sample.
"""

import os
import shutil
import tempfile
import weakref
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lamatext.atomic_write import host_code, is_running
from lamatext.data.cache import cache_folder
from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import text_keys
from lamatext.data.labels import ClassIndices, LabelEncoder, check_label_count
from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.folder_reader import (
    check_one_kind,
    glob_files,
    is_glob,
    shards_in_folder,
    shards_table,
)
from lamatext.data.readers.input_files import decompressed_suffix, missing_file_error, read_chunks
from lamatext.data.token_ids import Indices, TokenIds
from lamatext.data.tokenizer import TokenizedTexts, make_tokenizer
from lamatext.errors import ConfigError, DataError
from lamatext.progress import SILENT, Progress
from lamatext.settings import TextSettings

HELD_OUT_TEXTS = 50_000  # validation texts, and as many test texts, at most
SAMPLE_TEXTS = 50_000  # training texts that are kept in memory, to describe the data


@dataclass(frozen=True)
class StreamedTexts:
    """Training and validation texts of streamed data, stored as token ids on disk."""

    tokens: TokenizedTexts  # the training texts, then the validation texts
    labels: ClassIndices  # of all of them
    training_texts: int
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamedParts:
    """Training, validation and test parts of streamed data, with a sample of the training texts."""

    texts: StreamedTexts
    sample: Dataset
    validation: Dataset
    test: Dataset


class _Part:
    """Texts of the validation, test or sample part that are kept in memory while streaming."""

    def __init__(self) -> None:
        self._batches: list[Dataset] = []

    def __len__(self) -> int:
        return sum(map(len, self._batches))

    def add(self, batch: Dataset, rows: Indices) -> None:
        if len(rows):
            self._batches.append(batch.take(rows))

    def dataset(self, source: str, name: str) -> Dataset:
        if not self._batches:
            raise DataError(
                f"{source}: no {name} text was held out. Give more texts, without so many "
                "duplicates."
            )
        first = self._batches[0]
        texts = [chunk for batch in self._batches for chunk in batch.texts.chunks]
        labels = [chunk for batch in self._batches for chunk in batch.require_labels().chunks]
        return replace(
            first, texts=pa.chunked_array(texts), labels=pa.chunked_array(labels), source=source
        )


def stream_parts(  # noqa: PLR0913 - what to read, how, and what is held out
    source: str,
    options: ReadOptions,
    settings: TextSettings,
    *,
    fractions: tuple[float, float],
    validation: Dataset | None = None,
    test: Dataset | None = None,
    progress: Progress = SILENT,
) -> StreamedParts:
    """Stream a data source in one pass and write the tokens of its training texts to disk.

    Args:
        source: a file, a pattern of files or a folder of shards.
        options: columns, format and encoding; whatever is not given is detected.
        settings: the tokenizer.
        fractions: the fractions of validation and test texts, for parts that are not given; they
            are lowered so that a part has about ``HELD_OUT_TEXTS`` texts at most.
        validation: separate validation texts.
        test: separate test texts.
        progress: receives the number of texts.
    """
    files = source_files(source)
    rows = count_rows(files)
    limit = HELD_OUT_TEXTS / max(rows, 1)
    shares = [
        0.0 if given is not None else min(fraction, limit)
        for given, fraction in zip((validation, test), fractions, strict=True)
    ]
    pass_ = _Pass(settings, (shares[0], sum(shares), sum(shares) + SAMPLE_TEXTS / max(rows, 1)))
    progress.stage("tokenizing to disk", rows)
    table = shards_table(source, files, options)
    batches = table.to_datasets(options, source=source)
    folder = _new_folder()
    try:
        tokens = TokenIds.write(folder / "tokens", pass_.run(batches, progress))
        pass_.check_labels(source)
        validation = validation or pass_.validation.dataset(source, "validation")
        validation = pass_.known_labels().drop_unknown(validation)  # rare labels
        tokens = tokens.extended(pass_.tokenize(validation))
        texts = pass_.finish(tokens, validation)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(texts, shutil.rmtree, folder, ignore_errors=True)
    test = test or pass_.test.dataset(source, "test")
    notes = (*table.log.notes, *table.log.skipped_rows())
    sample = replace(pass_.sample.dataset(source, "training"), notes=notes)
    return StreamedParts(texts, sample, validation, test)


class _Pass:
    """State of a pass over streamed data, with word ids, label ids and the rows kept in memory."""

    def __init__(self, settings: TextSettings, limits: tuple[float, float, float]) -> None:
        self._tokenizer = make_tokenizer(
            settings.tokenizer, lower=settings.lowercase, version=settings.tokenizer_version
        )
        self._limits = np.array(limits)
        self._words: defaultdict[str, int] = defaultdict()
        self._words.default_factory = self._words.__len__
        self._labels: dict[str, int] = {}
        self._codes = array("i")
        self.validation, self.test, self.sample = _Part(), _Part(), _Part()

    def run(self, batches: Iterator[Dataset], progress: Progress) -> Iterator[TokenIds]:
        """Stream over the data and yield the token ids of the training texts, batch by batch."""
        for batch in batches:
            if batch.is_multi_label:
                raise ConfigError("--stream reads one label per text. Train without --stream.")
            keys = text_keys(batch.texts.combine_chunks())
            part = np.searchsorted(self._limits, keys / 2.0**64, side="right")
            self.validation.add(batch, np.flatnonzero(part == 0))
            self.test.add(batch, np.flatnonzero(part == 1))
            rows = np.flatnonzero(part >= 2)
            training = batch.take(rows)
            is_sampled = self._add_labels(training)
            self.sample.add(training, np.flatnonzero(is_sampled | (part[rows] == 2)))
            yield self.tokenize(training)
            progress.advance(len(batch))

    def _add_labels(self, training: Dataset) -> NDArray[np.bool_]:
        """Assign ids to the labels of streamed texts and return which texts have a new label."""
        labels = training.require_labels().to_pylist()
        is_new = np.zeros(len(labels), bool)
        for row, label in enumerate(labels):
            code = self._labels.get(label)
            if code is None:
                code = self._labels[label] = len(self._labels)
                is_new[row] = True
            self._codes.append(code)
        check_label_count(len(self._labels), len(self._codes), training.source)
        return is_new

    def check_labels(self, source: str) -> None:
        """Raise DataError if each of the streamed training texts has a label of its own."""
        if len(self._labels) == len(self._codes) > 0:
            raise DataError(
                f"{source}: each of the {len(self._codes):,} training texts has a label of its "
                "own. If they are not labels, choose another column with --label-column; "
                "otherwise join rare labels into one, such as 'other'."
            )

    def tokenize(self, dataset: Dataset) -> TokenIds:
        """Tokenize streamed texts and return their word ids."""
        ids, ends = array("i"), array("q", [0])
        for text in dataset.texts.to_pylist():
            ids.extend(map(self._words.__getitem__, self._tokenizer.words(text)))
            ends.append(len(ids))
        return TokenIds(np.frombuffer(ids, np.int32), np.frombuffer(ends, np.int64))

    def known_labels(self) -> LabelEncoder:
        """Return a label encoder with the labels of the streamed training texts."""
        return LabelEncoder(tuple(sorted(self._labels)))

    def finish(self, tokens: TokenIds, validation: Dataset) -> StreamedTexts:
        """Return the token ids and labels of the streamed training and validation texts."""
        encoder = self.known_labels()
        code_to_class = encoder.encode(list(self._labels))
        labels = code_to_class[np.frombuffer(self._codes, np.int32)]
        held_out = encoder.encode(validation.require_labels(), place=validation.place)
        return StreamedTexts(
            TokenizedTexts(tuple(self._words), tokens),
            np.concatenate([labels, held_out]),
            len(labels),
            tuple(encoder.names),
        )


def source_files(source: str) -> list[Path]:
    """Return the files to stream for a data source (a file, a pattern or a folder of shards)."""
    path = Path(source)
    if is_glob(source):
        return glob_files(source)
    if path.is_dir():
        files = shards_in_folder(path, "train")
        if not files:
            raise DataError(
                f"{source}: a folder without Parquet or JSONL files cannot be streamed. Train "
                "without --stream."
            )
        check_one_kind(path, files)
        return files
    if path.is_file():
        return [path]
    if source == "-" or ":" in source or not path.suffix:
        raise ConfigError(f"{source}: --stream reads files only. Train without --stream.")
    raise missing_file_error(source)


def count_rows(files: Sequence[Path]) -> int:
    """Estimate the number of rows to stream: exact for Parquet, the line count for other files."""
    rows = 0
    for path in files:
        if decompressed_suffix(path) in (".parquet", ".pq"):
            with suppress(pa.ArrowException, OSError):  # its reader says what is wrong
                rows += pq.read_metadata(path).num_rows
        else:
            rows += sum(chunk.count(b"\n") for chunk in read_chunks(str(path)))
    return rows


def _new_folder() -> Path:
    """Create a folder for streamed token files and delete folders of processes that have ended."""
    root = cache_folder()
    root.mkdir(parents=True, exist_ok=True)
    prefix = f"stream-{host_code()}-"  # other machines may share the folder
    for old in root.glob(f"{prefix}*-*"):
        pid = old.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and not is_running(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=root))
