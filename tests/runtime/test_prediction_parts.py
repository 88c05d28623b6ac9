"""Batch prediction in parts: resuming, complete outputs, and folders with a manifest."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from lamatext.data.readers.format_detection import file_table
from lamatext.errors import ConfigError, DataError
from lamatext.runtime import prediction_parts
from lamatext.runtime.prediction_parts import (
    CHECKSUMS,
    MANIFEST,
    PartFolder,
    PredictionOutput,
    describe_job,
    local_engine,
    part_path,
    predict_in_parts,
    split_rows,
)

MODEL = {"hash": "abc", "version": "2026-11-16T00:00:00Z"}
FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format-1"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Parquet file of 95 rows, of which 10 are a part."""
    monkeypatch.setattr(prediction_parts, "PART_ROWS", 10)
    path = tmp_path / "new.parquet"
    parquet.write_table(pa.table({"text": [f"text {n}" for n in range(95)]}), path)
    return path


class Labeller:
    """Stands in for a model: labels each text with its upper case, and can fail on the way."""

    def __init__(self, fail_after: int | None = None) -> None:
        self.texts: list[str] = []
        self.fail_after = fail_after

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = batch.column(0).to_pylist()
            self.texts += texts
            if self.fail_after is not None and len(self.texts) > self.fail_after:
                raise KeyboardInterrupt
            labels = pa.array([text.upper() for text in texts], pa.string())
            yield pa.RecordBatch.from_arrays([batch.column(0), labels], names=["text", "label"])


def run(source: Path, out: str, labeller: Labeller, **changes: object) -> int:
    job = describe_job(str(source), text_columns=["text"], model=MODEL, options={"top_k": 1})
    table = file_table(str(source))
    engine = local_engine(labeller)
    return predict_in_parts(
        PredictionOutput.parse(out), {**job, **changes}, table.all_batches(), engine
    )


def labels_of(path: Path) -> list[str]:
    batches = file_table(str(path)).batches(["label"])
    return [label for batch in batches for label in batch.column(0).to_pylist()]


def write_checksums(folder: Path) -> None:
    """List the parts of a folder as they are, as ``sha256sum`` would."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.glob("part-*"))
    ]
    (folder / CHECKSUMS).write_text("".join(lines))


EXPECTED = [f"TEXT {n}" for n in range(95)]


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.jsonl", "out.parquet"])
def test_a_second_call_continues_after_the_finished_parts(
    name: str, source: Path, tmp_path: Path
) -> None:
    out, partial = tmp_path / name, tmp_path / f"{name}.partial"
    with pytest.raises(KeyboardInterrupt):
        run(source, str(out), Labeller(fail_after=44))
    assert not out.exists()
    assert sorted(path.name for path in partial.iterdir()) == [
        CHECKSUMS,
        MANIFEST,
        *(f"part-{number:05}.parquet" for number in range(4)),
    ]

    second = Labeller()
    rows = run(source, str(out), second)

    assert rows == 95
    assert second.texts == [f"text {n}" for n in range(40, 95)]
    assert labels_of(out) == EXPECTED
    assert not partial.exists()


def test_a_folder_of_parts_appears_with_its_manifest_when_it_is_complete(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{out}/", Labeller(fail_after=44))
    assert not out.exists()

    run(source, f"{out}/", Labeller())

    manifest = json.loads((out / MANIFEST).read_text())
    assert manifest["rows"] == 95
    assert manifest["model"] == MODEL
    assert [part["rows"] for part in manifest["parts"]] == [10] * 9 + [5]
    files = [out / part["file"] for part in manifest["parts"]]
    assert [file.stat().st_size for file in files] == [p["bytes"] for p in manifest["parts"]]
    assert parquet.read_table(files).column("label").to_pylist() == EXPECTED
    assert sorted(path.name for path in out.iterdir()) == [
        CHECKSUMS,
        MANIFEST,
        *(f.name for f in files),
    ]
    subprocess.run(["sha256sum", "--check", "--quiet", CHECKSUMS], cwd=out, check=True)
    assert not (tmp_path / "parts.partial").exists()


def test_a_complete_folder_is_not_computed_again_and_not_replaced(
    source: Path, tmp_path: Path
) -> None:
    run(source, f"{tmp_path}/parts/", Labeller())
    again = Labeller()

    assert run(source, f"{tmp_path}/parts/", again) == 95
    assert again.texts == []
    with pytest.raises(ConfigError, match=r"parts/: already exists. Name another folder"):
        run(source, f"{tmp_path}/parts/", Labeller(), model={"hash": "other"})


@pytest.mark.parametrize("content", [None, b"", b"shorter"])
def test_a_part_that_is_lost_from_a_complete_folder_is_computed_again(
    content: bytes | None, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "parts"
    run(source, f"{out}/", Labeller())
    lost, again = part_path(out, 3), Labeller()
    lost.unlink()
    if content is not None:
        lost.write_bytes(content)

    assert run(source, f"{out}/", again) == 95

    assert again.texts == [f"text {n}" for n in range(30, 40)]
    files = sorted(out.glob("part-*.parquet"))
    assert parquet.read_table(files).column("label").to_pylist() == EXPECTED
    assert not (tmp_path / "parts.partial").exists()


@pytest.mark.parametrize(
    "change", [{"model": {"hash": "other"}}, {"options": {"top_k": 2}}, {"text_columns": ["title"]}]
)
def test_parts_of_another_job_are_not_reused(
    change: dict[str, object], source: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    second = Labeller()

    run(source, f"{tmp_path}/out.csv", second, **change)

    assert len(second.texts) == 95


def test_parts_of_a_changed_input_are_not_reused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    os.utime(source, ns=(0, 0))
    second = Labeller()

    run(source, f"{tmp_path}/out.csv", second)

    assert len(second.texts) == 95


def test_a_damaged_part_is_computed_again(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    part = part_path(tmp_path / "out.csv.partial", 1)
    part.write_bytes(part.read_bytes()[:-20])
    second = Labeller()

    run(source, f"{tmp_path}/out.csv", second)

    assert second.texts[:11] == [*(f"text {n}" for n in range(10, 20)), "text 40"]
    assert labels_of(tmp_path / "out.csv") == EXPECTED


def test_a_part_with_other_rows_than_the_input_is_an_error(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    part = part_path(tmp_path / "out.csv.partial", 2)
    parquet.write_table(pa.table({"text": ["x"]}), part)
    write_checksums(part.parent)

    with pytest.raises(DataError, match=r"has 1 row, but the input has 10. Delete .*partial"):
        run(source, f"{tmp_path}/out.csv", Labeller())


def test_a_part_with_a_flipped_bit_is_predicted_again(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    part = part_path(tmp_path / "out.csv.partial", 1)
    content = bytearray(part.read_bytes())
    at = content.index(b"text 1")
    content[at] ^= 1
    part.write_bytes(content)

    run(source, f"{tmp_path}/out.csv", Labeller())
    run(source, f"{tmp_path}/whole.csv", Labeller())

    assert (tmp_path / "out.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_exchanged_parts_are_predicted_again(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    first, second = (part_path(tmp_path / "out.csv.partial", number) for number in (1, 2))
    moved = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(moved)
    labeller = Labeller()

    run(source, f"{tmp_path}/out.csv", labeller)

    assert labeller.texts[:20] == [f"text {n}" for n in range(10, 30)]
    assert labels_of(tmp_path / "out.csv") == EXPECTED


@pytest.mark.parametrize("out", ["out.csv", "out/"])
def test_a_copied_part_behind_the_end_of_the_input_is_deleted(
    out: str, source: Path, tmp_path: Path
) -> None:
    partial = tmp_path / f"{out.rstrip('/')}.partial"
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/{out}", Labeller(fail_after=44))
    part_path(partial, 77).write_bytes(part_path(partial, 0).read_bytes())
    write_checksums(partial)

    assert run(source, f"{tmp_path}/{out}", Labeller()) == 95
    if out == "out.csv":
        assert labels_of(tmp_path / "out.csv") == EXPECTED
    else:
        assert json.loads((tmp_path / "out" / MANIFEST).read_text())["rows"] == 95
        assert not part_path(tmp_path / "out", 77).exists()


def test_a_part_whose_checksum_was_not_written_is_predicted_again(
    source: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(source, f"{tmp_path}/out.csv", Labeller(fail_after=44))
    checksums = tmp_path / "out.csv.partial" / CHECKSUMS
    checksums.write_bytes(checksums.read_bytes()[:-30])  # killed on the way
    labeller = Labeller()

    run(source, f"{tmp_path}/out.csv", labeller)

    assert labeller.texts[0] == "text 30"
    assert labels_of(tmp_path / "out.csv") == EXPECTED


def test_two_processes_do_not_write_the_same_parts(source: Path, tmp_path: Path) -> None:
    with (
        PartFolder.open(tmp_path / "out.csv.partial", {"input": "x"}),
        pytest.raises(ConfigError, match="another process is writing to it"),
    ):
        run(source, f"{tmp_path}/out.csv", Labeller())


def test_a_folder_that_is_not_ours_is_left_alone(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv.partial").mkdir()
    (tmp_path / "out.csv.partial" / "notes.txt").write_text("mine")

    with pytest.raises(
        ConfigError, match=r"not a folder of unfinished work of lamatext. Move it away"
    ):
        run(source, f"{tmp_path}/out.csv", Labeller())

    assert (tmp_path / "out.csv.partial" / "notes.txt").read_text() == "mine"


def test_a_link_in_place_of_the_folder_of_parts_is_not_followed(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "manifest.json").write_text("mine")
    (tmp_path / "out.csv.partial").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="not a folder of unfinished work of lamatext"):
        run(source, f"{tmp_path}/out.csv", Labeller())

    assert (tmp_path / "elsewhere" / "manifest.json").read_text() == "mine"


def test_an_input_without_rows_is_written_with_its_columns(tmp_path: Path) -> None:
    source = tmp_path / "empty.parquet"
    parquet.write_table(pa.table({"text": pa.array([], pa.string())}), source)

    assert run(source, f"{tmp_path}/out.csv", Labeller()) == 0
    assert (tmp_path / "out.csv").read_text() == '"text","label"\n'


def test_rows_are_split_across_batches_of_any_size() -> None:
    values = iter(range(100))
    sizes = [0, 3, 7, 1, 0, 20, 9, 0]
    batches = [
        pa.RecordBatch.from_pydict({"n": pa.array([next(values) for _ in range(size)], pa.int64())})
        for size in sizes
    ]

    parts = [[n for b in part for n in b.column(0).to_pylist()] for part in split_rows(batches, 6)]

    assert parts == [list(range(start, min(start + 6, 40))) for start in range(0, 40, 6)]


@pytest.mark.slow
def test_a_command_killed_again_and_again_ends_with_the_same_output(tmp_path: Path) -> None:
    texts = [f"a superb film number {n}" for n in range(60_000)]
    parquet.write_table(pa.table({"text": texts}), tmp_path / "new.parquet")
    command = [sys.executable, "-m", "lamatext", "predict", str(FORMAT_1), "new.parquet"]
    subprocess.run([*command, "--out", "whole.csv"], cwd=tmp_path, check=True)
    partial, kills = tmp_path / "out.csv.partial", 0
    for wanted in range(1, 7):
        process = subprocess.Popen([*command, "--out", "out.csv"], cwd=tmp_path)
        while len(list(partial.glob("part-*"))) < wanted and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        assert not (tmp_path / "out.csv").exists() or process.returncode == 0

    done = subprocess.run([*command, "--out", "out.csv"], cwd=tmp_path, capture_output=True)

    assert done.returncode == 0
    assert kills > 3
    assert b"Continuing with the finished parts in out.csv.partial" in done.stderr
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "new.parquet",
        "out.csv",
        "whole.csv",
    ]


def test_parts_that_a_killed_process_was_deleting_are_replaced(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.csv.partial").mkdir()
    (tmp_path / "out.csv.partial" / "part-00000.parquet").write_bytes(b"of another job")

    run(source, f"{tmp_path}/out.csv", Labeller())

    assert (tmp_path / "out.csv").is_file()
    assert not (tmp_path / "out.csv.partial").exists()
