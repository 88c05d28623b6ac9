"""Training on streamed shards: parts by hash, tokens on disk, the command, refused options."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.atomic_write import host_code
from lamatext.cli.main import run
from lamatext.data import streaming
from lamatext.data.cache import cache_folder
from lamatext.data.read_options import ReadOptions
from lamatext.data.streaming import count_rows, source_files, stream_parts
from lamatext.errors import ConfigError, DataError
from lamatext.evaluation import load_evaluation_data
from lamatext.runtime.predictor import Predictor
from lamatext.settings import TextSettings
from lamatext.training import batching, cross_fitting
from tests.corpora import TINY, reviews

SMALL = [
    part
    for key, value in (TINY | {"ngrams.enabled": True, "training.epochs": 4}).items()
    for part in ("--set", f"{key}={value}".lower())
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    return cache_folder()


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A folder of three shards with 1,500 texts; every text occurs twice, in another case."""
    folder = tmp_path / "shards"
    folder.mkdir()
    texts, labels = reviews(750)
    rows = pa.table({"text": [*texts, *map(str.upper, texts)], "label": [*labels, *labels]})
    for number in range(3):
        pq.write_table(rows.slice(500 * number, 500), folder / f"{number}.parquet")
    return folder


def parts(source: Path) -> streaming.StreamedParts:
    return stream_parts(str(source), ReadOptions(), TextSettings(), fractions=(0.1, 0.1))


def test_every_row_is_in_one_part_and_duplicates_are_in_the_same(shards: Path) -> None:
    found = parts(shards)

    tokens, count = found.texts.tokens, found.texts.training_texts
    train = {" ".join(words) for words in tokens.words(np.arange(count))}
    held_out = [
        {text.lower() for text in part.texts.to_pylist()} for part in (found.validation, found.test)
    ]
    assert count + len(found.validation) + len(found.test) == 1_500
    assert len(tokens.rows) == count + len(found.validation) == len(found.texts.labels)
    assert tokens.rows.are_on_disk
    assert not train & held_out[0]
    assert not train & held_out[1]
    assert not held_out[0] & held_out[1]
    assert 50 < len(found.test) < 300


def test_the_labels_of_streamed_texts_are_theirs(shards: Path) -> None:
    texts, labels = reviews(750)
    label_of = dict(zip(texts, labels, strict=True))

    found = parts(shards).texts

    for row in range(len(found.labels)):
        text = " ".join(found.tokens.words(np.array([row]))[0])
        assert found.classes[found.labels[row]] == label_of[text]


def test_an_empty_shard_is_named_and_other_columns_are_an_error(shards: Path) -> None:
    (shards / "empty.jsonl").touch()

    assert "empty.jsonl: an empty shard, skipped" in parts(shards).sample.notes[0]

    pq.write_table(pa.table({"text": ["a"], "topic": ["b"]}), shards / "9.parquet")
    with pytest.raises(DataError, match=r"9\.parquet: the shard has no column 'label'"):
        parts(shards)
    assert not list(cache_folder().glob("stream-*"))


def test_the_files_are_deleted_with_the_texts(shards: Path, cache: Path) -> None:
    found = parts(shards)
    assert list(cache.glob("stream-*"))

    del found

    assert not list(cache.glob("stream-*"))


@pytest.mark.filterwarnings("ignore:.* a label that the training data lacks")
def test_labels_that_only_held_out_texts_have_are_left_out(tmp_path: Path) -> None:
    letters = [f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst"]
    rows = [f"the film {name},{'good' if row % 2 else 'bad'}" for row, name in enumerate(letters)]
    stray = [f"something else {name},stray {name}" for name in letters[:60]]  # some are held out
    source = tmp_path / "texts.csv"
    source.write_text("\n".join(["text,label", *rows, *stray]), encoding="utf-8")

    found = parts(source)

    held_out = {*found.validation.require_labels().to_pylist()}
    assert held_out
    assert held_out <= {*found.texts.classes}


def test_a_label_of_its_own_for_each_text_is_an_error(tmp_path: Path) -> None:
    texts, _ = reviews(300)
    rows = [f"{text},id {row}" for row, text in enumerate(texts)]
    source = tmp_path / "texts.csv"
    source.write_text("\n".join(["text,label", *rows]), encoding="utf-8")

    with pytest.raises(DataError, match=r"each of the \d+ training texts has a label of its own"):
        parts(source)


def test_files_of_a_killed_process_are_deleted(shards: Path, cache: Path) -> None:
    left = cache / f"stream-{host_code()}-999999999-x"
    of_another_machine = cache / "stream-00000000-999999999-x"
    left.mkdir(parents=True)
    of_another_machine.mkdir()

    parts(shards)

    assert not left.exists()
    assert of_another_machine.exists()


def test_rows_are_counted_before_they_are_read(shards: Path, tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "a", "label": 1}\n' * 7)

    assert count_rows(source_files(str(shards))) == 1_500
    assert count_rows([lines]) == 7


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("-", ConfigError, "--stream reads files only"),
        ("hf:a/b", ConfigError, "--stream reads files only"),
        ("missing.parquet", DataError, "no such file"),
        (".", DataError, "a folder without Parquet or JSONL files cannot be streamed"),
    ],
)
def test_a_source_that_cannot_be_streamed_is_an_error(
    source: str,
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(error, match=message):
        source_files(source)


def test_a_shuffle_buffer_draws_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SHUFFLE_BUFFER", 256)
    monkeypatch.setattr(batching, "SHUFFLE_BLOCK", 16)
    lengths = np.random.default_rng(0).integers(1, 9, 1_000)

    batches = batching.shuffled_batches(lengths, batch_size=8, seed=0, epoch=1)

    rows = np.concatenate(batches)
    assert sorted(rows.tolist()) == list(range(1_000))
    assert len(np.unique(rows[:256] // 16)) <= 256 // 16 + 1  # the first buffer is whole blocks
    assert (np.diff(rows) != 1).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("texts", [1_000_000, 300])  # all of them, or a sample
def test_a_streamed_model_learns_and_is_saved(
    shards: Path, texts: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cross_fitting, "NGRAM_TEXTS", texts)
    monkeypatch.setattr(batching, "SHUFFLE_BUFFER", 256)
    out = shards.parent / "model"

    status = run(["train", f"{shards}/*.parquet", "--stream", "--out", str(out), "-q", *SMALL])

    assert status == 0, capsys.readouterr().err
    assert Predictor.load(out).predict(
        ["a superb charming film", "a dull tedious film"]
    ).tolist() == [
        "pos",
        "neg",
    ]
    data = json.loads((out / "config.json").read_text(encoding="utf-8"))["data"]
    assert 1_000 < data["training_texts"] == data["texts"] < 1_400
    about = load_evaluation_data(out, f"{shards}/*.parquet").about
    assert "the model may have been TRAINED ON these texts" in about
    capsys.readouterr()
    assert run(["train", str(shards), "--stream", "--out", str(out), "--resume", *SMALL]) == 0
    assert "already finished" in capsys.readouterr().err


def test_options_that_need_the_data_in_memory_are_refused(
    shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(
        [
            "train",
            str(shards),
            "--stream",
            "--out",
            "x",
            "--group-column",
            "label",
            "--device",
            "cpu",
        ]
    )

    assert status == 2
    assert "--stream does not work with --group-column" in capsys.readouterr().err


def test_several_processes_are_refused_before_the_data_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two = SimpleNamespace(size=2)
    monkeypatch.setattr("lamatext.training.process_group.current_processes", lambda: two)

    status = run(["train", "no-such-folder", "--stream", "--out", "x", "--device", "cpu"])

    assert status == 2
    assert "--stream trains in one process" in capsys.readouterr().err
