"""Prediction parts of a resumable batch job, each a Parquet file with 10,000 rows.

    NAME.partial/manifest.json       the job: input, text column, model hash, options
    NAME.partial/checksums.txt       SHA-256 and name of each finished part, as in ``sha256sum``
    NAME.partial/part-00000.parquet  rows 0 to 9,999 with their predictions
    NAME.partial/part-00001.parquet  …

A part whose checksum differs from the listed one was damaged or swapped with another part, and is
computed again. The content of the parts depends neither on the engine that computes them (this
process, or the workers of ``ray_engine.py``) nor on the order in which they are computed. At the
end, the parts are copied to one file, or the folder itself becomes the result; in that case, its
manifest lists the parts and the number of rows.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from lamatext import __version__
from lamatext.atomic_write import (
    delete_stale_files,
    is_special_file,
    locked_folder,
    replace_atomically,
    unfinished_until_end,
    write_text,
)
from lamatext.data.readers.folder_reader import glob_files, is_glob
from lamatext.data.writers import check_safe_csv, open_writer, output_format
from lamatext.errors import ConfigError, DataError, plural
from lamatext.progress import SILENT, Progress
from lamatext.saved.format import json_text

PART_ROWS = 10_000  # a part takes about a second, so little work is lost if the job is killed
MANIFEST, CHECKSUMS = "manifest.json", "checksums.txt"
FORMAT = 1

Job = dict[str, Any]


Batches = Iterable[pa.RecordBatch]
NumberedParts = Iterable[tuple[int, Batches]]
PartEngine = Callable[[NumberedParts], NumberedParts]
"""Function that adds predictions to the rows of numbered parts and may reorder the parts."""


@dataclass(frozen=True, slots=True)
class PredictionOutput:
    """Output path of a batch prediction: one file or a folder of prediction parts."""

    path: Path
    is_folder: bool
    safe_csv: bool = False

    @classmethod
    def parse(cls, out: str, *, safe_csv: bool = False, folder: bool = False) -> "PredictionOutput":
        """Parse ``--out`` of a batch prediction: a file, or (with a trailing slash) a folder.

        If ``folder`` is true, a path without an extension is a folder of parts, too.
        """
        path = Path(out)
        is_folder = out.endswith("/") or (folder and not path.suffix)
        if is_folder and path.exists() and not path.is_dir():
            raise ConfigError(f"{path}: is a file. Name a new folder.")
        format = "parquet" if is_folder else output_format(path)
        if safe_csv:
            check_safe_csv(format)
        return cls(path, is_folder, safe_csv)

    def is_resumable(self, source: str) -> bool:
        """Return whether a batch prediction can be resumed: not from stdin or to a FIFO or device.

        Raises:
            ConfigError: the output is a folder of parts, but the input is stdin.
        """
        if self.is_folder and source == "-":
            raise ConfigError(f"{self.path}/: a folder of parts needs a file as INPUT, got stdin.")
        return source != "-" and not is_special_file(self.path)


def predict_in_parts(
    output: PredictionOutput,
    job: Job,
    batches: Batches,
    engine: PartEngine,
    progress: Progress = SILENT,
) -> int:
    """Run a batch prediction in parts, reusing finished parts of an interrupted run.

    Args:
        output: the file or folder to write.
        job: from ``describe_job``.
        batches: the whole input.
        engine: computes the parts.
        progress: shows the number of texts.

    Returns:
        The number of rows.
    """
    partial_folder = output.path.with_name(f"{output.path.name}.partial")
    if output.is_folder and output.path.is_dir() and any(output.path.iterdir()):
        rows = _rows_of_finished(output.path, job)
        if rows is not None:
            progress.note(f"{output.path}/: already complete; nothing to do.")
            return rows
        progress.note(f"{output.path}/: parts are missing or changed; they are computed again.")
        _move(output.path, partial_folder)
    with unfinished_until_end(output.path), PartFolder.open(partial_folder, job) as parts:
        rows = parts.predict(batches, engine, progress)
        if output.is_folder:
            parts.publish(output.path)
            return rows
        progress.stage(f"writing {output.path}", rows)
        with open_writer(output.path, safe_csv=output.safe_csv) as write:
            for batch in parts.batches():
                write(batch)
                progress.advance(len(batch))
        parts.delete()
    return rows


def local_engine(predict: Callable[[Batches], Iterator[pa.RecordBatch]]) -> PartEngine:
    """Return an engine that computes prediction parts in this process by calling ``predict``."""

    def compute(parts: NumberedParts) -> Iterator[tuple[int, Batches]]:
        for number, part in parts:
            yield number, predict(part)

    return compute


def describe_job(
    source: str,
    *,
    text_columns: Sequence[str],
    model: Mapping[str, str],
    options: Mapping[str, object],
) -> Job:
    """Return a dictionary that identifies a batch prediction job by input, model and options.

    The dictionary is stored in the manifest of the job. A later job with an equal dictionary reuses
    the parts that the earlier job has finished.

    Args:
        source: the input as the user named it. A file or folder counts as changed if a size or a
            modification time has changed.
        text_columns: names of the columns with the texts.
        model: hash and version of the model.
        options: the options that change the result.
    """
    path = Path(source)
    if is_glob(source):
        files = glob_files(source)
    else:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {
        "format": FORMAT,
        "lamatext": __version__,
        "input": source,
        "input_files": [
            {"name": file.name, "bytes": file.stat().st_size, "modified": file.stat().st_mtime_ns}
            for file in files
            if file.is_file()
        ],
        "text_columns": list(text_columns),
        "model": dict(model),
        "options": dict(options),
        "part_rows": PART_ROWS,
    }


def part_path(folder: Path, number: int) -> Path:
    """Return the path of the Parquet file that holds one prediction part."""
    return folder / f"part-{number:05}.parquet"


@dataclass(frozen=True, slots=True)
class PartFolder:
    """Folder of finished prediction parts, to which only one process at a time may write."""

    folder: Path
    job: Job
    checksums: dict[str, str] = field(default_factory=dict)  # SHA-256 by file name of the part

    @classmethod
    @contextmanager
    def open(cls, folder: Path, job: Job) -> Iterator["PartFolder"]:
        """Open or create a folder of prediction parts, deleting the parts of any other job.

        Args:
            folder: the folder.
            job: the job, from ``describe_job``.

        Raises:
            ConfigError: another process is writing to the folder, or it holds something else.
        """
        not_ours = f"{folder}: not a folder of unfinished work of lamatext. Move it away."
        if folder.is_symlink():  # whoever made it chose where files would be written and deleted
            raise ConfigError(not_ours)
        with locked_folder(folder):
            parts = cls(folder, job)
            if (folder / MANIFEST).is_file():
                if not same_job(read_manifest(folder), job):
                    parts._delete_parts()
                parts.checksums.update(_read_checksums(folder))
            else:
                if any(not _is_leftover(path.name) for path in folder.iterdir()):
                    raise ConfigError(not_ours)
                parts._delete_parts()
            delete_stale_files(folder)
            write_text(folder / MANIFEST, json_text(job))
            try:
                yield parts
            finally:
                parts._delete_if_empty()

    def write(self, number: int, batches: Batches) -> int:
        """Write one prediction part atomically, record its checksum and return its row count."""
        rows, path = 0, part_path(self.folder, number)
        with replace_atomically(path) as temporary:
            writer = None
            for batch in batches:
                writer = writer or parquet.ParquetWriter(temporary, batch.schema)
                writer.write_batch(batch)
                rows += len(batch)
            assert writer is not None  # an input without rows is one empty batch
            writer.close()
            self.checksums[path.name] = _checksum(temporary)
        with (self.folder / CHECKSUMS).open("a", encoding="ascii") as file:
            file.write(f"{self.checksums[path.name]}  {path.name}\n")
        return rows

    def rows_of(self, number: int) -> int | None:
        """Return the row count of a prediction part, or None if it must be computed again.

        A part must be computed again if it is missing or damaged, or if another part is in its
        place.
        """
        path = part_path(self.folder, number)
        try:
            if _checksum(path) != self.checksums.get(path.name):
                return None
            return int(parquet.read_metadata(path).num_rows)
        except (OSError, pa.ArrowException):
            return None

    def predict(self, batches: Batches, engine: PartEngine, progress: Progress) -> int:
        """Predict all parts that are not finished yet and return the total number of rows."""
        rows = parts = 0

        def count(labelled: Batches) -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in labelled:
                yield batch
                rows += len(batch)
                progress.advance(len(batch), plural(rows, "text"))

        def unfinished() -> Iterator[tuple[int, Batches]]:
            nonlocal parts
            for number, part in enumerate(split_rows(batches, PART_ROWS)):
                parts = number + 1
                finished = self.rows_of(number)
                if finished is None:
                    yield number, part
                else:
                    self._check_rows(number, finished, sum(map(len, count(part))))

        if self.rows_of(0) is not None:
            progress.note(f"Continuing with the finished parts in {self.folder}")
        for number, labelled in engine(unfinished()):
            self.write(number, count(labelled))
        self._delete_files({part_path(self.folder, number) for number in range(parts)})
        return rows

    def _check_rows(self, number: int, finished: int, expected: int) -> None:
        if finished != expected:
            raise DataError(
                f"{part_path(self.folder, number)}: has {plural(finished, 'row')}, but the input "
                f"has {expected:,}. Delete {self.folder} and start again."
            )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all prediction parts in the order of the input."""
        for path in sorted(self.folder.glob("part-*.parquet")):
            with parquet.ParquetFile(path) as file:
                if not file.metadata.num_rows:
                    yield pa.RecordBatch.from_pylist([], file.schema_arrow)
                yield from file.iter_batches()

    def publish(self, folder: Path) -> None:
        """Complete the manifest of the prediction parts and rename the folder to its final name."""
        parts = [
            {
                "file": path.name,
                "rows": parquet.read_metadata(path).num_rows,
                "bytes": path.stat().st_size,
            }
            for path in sorted(self.folder.glob("part-*.parquet"))
        ]
        rows = sum(part["rows"] for part in parts)
        write_text(self.folder / MANIFEST, json_text({**self.job, "rows": rows, "parts": parts}))
        delete_stale_files(self.folder)
        _move(self.folder, folder)

    def delete(self) -> None:
        """Delete the folder of prediction parts once their rows have been written to one file."""
        self._delete_parts()
        shutil.rmtree(self.folder)

    def _delete_if_empty(self) -> None:
        """Delete the folder of prediction parts if the job failed before finishing any part."""
        if not any(self.folder.glob("part-*.parquet")):
            self._delete_parts()
            with suppress(OSError):  # published, deleted, or it holds something else
                self.folder.rmdir()

    def _delete_parts(self) -> None:
        (self.folder / MANIFEST).unlink(missing_ok=True)  # first: the parts alone mean nothing
        (self.folder / CHECKSUMS).unlink(missing_ok=True)
        self._delete_files(set())

    def _delete_files(self, keep: set[Path]) -> None:
        """Delete all part files in the folder except those in ``keep``."""
        for path in {*self.folder.glob("part-*.parquet")} - keep:
            path.unlink()


def split_rows(batches: Batches, rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """Split record batches into prediction parts of ``rows`` rows each, without copying.

    Each part must be consumed before the next one is requested.
    """
    source = iter(batches)
    rest = next(source, None)

    def take() -> Iterator[pa.RecordBatch]:
        nonlocal rest
        left = rows
        while rest is not None and left:
            batch, rest = rest[:left], rest[left:]
            left -= len(batch)
            while rest is not None and not len(rest):
                rest = next(source, None)
            yield batch

    while rest is not None:
        yield take()


def same_job(manifest: Job, job: Job) -> bool:
    """Return whether a manifest describes this job, so that its prediction parts can be reused."""
    return all(manifest.get(key) == value for key, value in job.items())


def read_manifest(folder: Path) -> Job:
    """Read the manifest of a folder of prediction parts; return {} if it cannot be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _read_checksums(folder: Path) -> dict[str, str]:
    """Read the checksums of prediction parts, tolerating a truncated last line."""
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rows_of_finished(folder: Path, job: Job) -> int | None:
    """Return the row count of a finished batch prediction, or None if a part is missing.

    Raises:
        ConfigError: the folder holds something other than the result of this job.
    """
    manifest = read_manifest(folder)
    rows, parts = manifest.get("rows"), manifest.get("parts")
    if not (same_job(manifest, job) and isinstance(rows, int) and isinstance(parts, list)):
        raise ConfigError(f"{folder}/: already exists. Name another folder, or delete it first.")
    for part in parts:
        path = folder / part["file"]
        if not path.is_file() or path.stat().st_size != part["bytes"]:
            return None
    return rows


def _move(folder: Path, target: Path) -> None:
    """Move a folder of prediction parts, or raise DataError if that fails."""
    try:
        folder.replace(target)
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror}.") from error


def _is_leftover(name: str) -> bool:
    """Return whether a file of this name may be left over from an interrupted batch prediction."""
    return (
        name.endswith(".lamatext")
        or name == CHECKSUMS
        or (name.startswith("part-") and name.endswith(".parquet"))
    )
