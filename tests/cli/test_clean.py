"""``lamatext clean`` and ``lamatext train --without``."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.pipeline import DataSources, read_splits
from lamatext.recipes import resolve_recipe
from lamatext.runtime.prediction_parts import PartFolder
from lamatext.suspect_labels import OutOfFoldModels
from tests.cli.conftest import Command
from tests.cli.test_commands import SMALL
from tests.cli.test_next_commands import next_commands
from tests.corpora import reviews, topic_texts

WRONG = (12, 33)  # rows of reviews.csv whose labels are flipped, from 0


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_flipped(path: Path, count: int, wrong: tuple[int, ...] = WRONG) -> Path:
    texts, labels = reviews(count)
    for row in wrong:
        labels[row] = {"neg": "pos", "pos": "neg"}[labels[row]]
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = zip(range(count), texts, labels, strict=True)
        csv.writer(file).writerows([("id", "text", "label"), *rows])
    return path


@pytest.fixture
def flipped(place: Path) -> Path:
    return write_flipped(place / "reviews.csv", 60)


@pytest.mark.usefixtures("flipped")
def test_suspects_are_listed_with_lines_labels_words_and_hashes(
    lamatext: Command, place: Path
) -> None:
    answer = lamatext("clean", "reviews.csv", "--out", "suspects.csv")

    rows = read(place / "suspects.csv")
    assert answer.status == 0, answer.err
    assert {int(row["row"]) for row in rows[:2]} == {row + 2 for row in WRONG}
    assert {rows[0]["label"], rows[0]["suggested_label"]} == {"neg", "pos"}
    assert float(rows[0]["score"]) >= float(rows[1]["score"]) > 0.7
    assert rows[0]["supporting_words"].split()[0] in rows[0]["text"]
    assert "2 improbable labels of 60 texts (3.3 %)" in answer.out
    assert f"row {rows[0]['row']}: " in answer.out
    assert "texts from column 'text'" in answer.err
    assert not list(place.glob("*.partial"))


@pytest.mark.usefixtures("flipped")
def test_the_next_commands_of_clean_carry_the_options(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--label-column", "label", "--max-bad-rows", "5%", "--merge-labels")

    (place / "runs" / "clean").mkdir(parents=True)

    arguments = ("clean", "reviews.csv", "--out", "s.csv", *options)
    monkeypatch.setattr("sys.argv", ["lamatext", *arguments])
    answer = lamatext(*arguments)
    review, train = next_commands(answer)

    assert train[1:7] == ["train", "reviews.csv", "--without", "s.csv", "--out", "runs/clean-2"]
    assert train[-5:] == ["--label-column", "label", "--max-bad-rows", "0.05",
                          "--merge-labels"]  # fmt: skip
    assert review[1:3] == ["clean", "reviews.csv"]
    assert review[-3:] == ["--html", "review.html", "--force"]
    assert lamatext(*train[1:], *SMALL).status == 0
    assert lamatext(*review[1:]).status == 0


def test_texts_that_are_only_unusual_are_not_to_be_left_out_of_training(
    lamatext: Command, place: Path
) -> None:
    texts, labels = reviews(300)
    texts[7] = "zonk quux blarg " * 20
    rows = ["text,label", *(f"{text},{label}" for text, label in zip(texts, labels, strict=True))]
    (place / "right.csv").write_text("\n".join(rows))

    answer = lamatext("clean", "right.csv", "--out", "s.csv")
    with_page = lamatext("clean", "right.csv", "--out", "t.csv", "--html", "page.html")

    assert [row["reason"] for row in read(place / "s.csv")] == ["unusual text"]
    assert "No label is suspect; look at the unusual texts" in answer.out
    (review,) = next_commands(answer)
    assert review[-3:] == ["--html", "review.html", "--force"]
    assert "Next:" not in with_page.err


def test_formulas_in_a_list_of_suspects_can_be_written_as_text(
    lamatext: Command, place: Path
) -> None:
    texts, labels = reviews(60)
    labels = ["=1+1" if label == "pos" else "neg" for label in labels]
    labels[3] = {"neg": "=1+1", "=1+1": "neg"}[labels[3]]
    rows = [
        {"text": f"@sum {text}", "label": label} for text, label in zip(texts, labels, strict=True)
    ]
    (place / "formulas.jsonl").write_text("\n".join(map(json.dumps, rows)))

    answer = lamatext("clean", "formulas.jsonl", "--out", "s.csv", "--safe-csv")
    train = lamatext(
        "train", "formulas.jsonl", "--without", "s.csv", "--out", "run", "--baselines", "none",
        *SMALL,
    )  # fmt: skip

    assert answer.status == 0, answer.err
    listed = read(place / "s.csv")
    assert all(row["text"].startswith("'@sum") for row in listed)
    assert train.status == 0, train.err
    assert f"{len(listed)} row" in train.err
    assert "left out, as s.csv lists" in train.err
    assert "corrected" not in train.err


@pytest.mark.usefixtures("flipped")
def test_a_list_of_suspects_is_not_replaced_without_force(lamatext: Command, place: Path) -> None:
    (place / "suspects.csv").write_text("edited")

    refused = lamatext("clean", "reviews.csv", "--out", "suspects.csv")
    forced = lamatext("clean", "reviews.csv", "--out", "suspects.csv", "--force", "--json")

    assert refused.status == 2
    assert "suspects.csv: already exists. Replace it with --force" in refused.err
    assert json.loads(forced.out)["texts"] == 60
    assert len(read(place / "suspects.csv")) == len(json.loads(forced.out)["suspects"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na fine film,pos\na dull bore,neg\n", "2 texts are too few to check"),
        ("text,label\n" + "".join(f"film {w},pos\n" for w in "abcdefghijkl"), "every text has the"),
        ("text,label\na fine film,pos\na dull bore,\n", "cannot be used"),
        ("text,label\n", "no rows"),
    ],
)
def test_data_that_cannot_be_checked_is_one_sentence(
    content: str, message: str, lamatext: Command, place: Path
) -> None:
    (place / "bad.csv").write_text(content)

    answer = lamatext("clean", "bad.csv", "--out", "suspects.csv", "--quiet")

    assert answer.status == 2
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not list(place.glob("suspects*"))


def test_several_labels_per_text_are_a_named_error(lamatext: Command, place: Path) -> None:
    rows = zip(*topic_texts(40), strict=True)
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
    (place / "topics.jsonl").write_text("\n".join(lines))

    answer = lamatext("clean", "topics.jsonl", "--out", "suspects.csv", "--quiet")

    assert answer.status == 2
    assert "topics.jsonl: several labels per text." in answer.err


@pytest.mark.usefixtures("flipped")
def test_training_leaves_out_what_the_user_has_not_deleted_from_the_list(
    lamatext: Command, place: Path
) -> None:
    lamatext("clean", "reviews.csv", "--out", "suspects.csv")
    lines = (place / "suspects.csv").read_text().splitlines()
    (place / "suspects.csv").write_text("\n".join(lines[:2]) + "\n")  # only the first suspect

    recipe, suspects = resolve_recipe(), Path("suspects.csv")
    splits = read_splits(DataSources("reviews.csv", without=suspects), recipe)
    tested = read_splits(DataSources("reviews.csv", without=suspects, test="reviews.csv"), recipe)

    parts = [splits.train, splits.validation, splits.test]
    texts = [text for part in parts if part is not None for text in part.texts.to_pylist()]
    assert len(texts) == 59
    assert read(place / "suspects.csv")[0]["text"] not in texts
    warning = "Test texts that are held out of the rest lack them, too"
    assert any(warning in note for note in splits.train.notes)
    assert not any(warning in note for note in tested.train.notes)


@pytest.mark.usefixtures("flipped")
def test_training_without_suspects_of_a_changed_file_is_an_error(
    lamatext: Command, place: Path
) -> None:
    lamatext("clean", "reviews.csv", "--out", "suspects.csv")
    text = (place / "reviews.csv").read_text()
    (place / "reviews.csv").write_text(text.replace("0,", "0,one more word ", 1))
    shifted = (place / "reviews.csv").read_text().split("\n", 1)
    (place / "reviews.csv").write_text(f"{shifted[0]}\n-1,a new film,pos\n{shifted[1]}")

    answer = lamatext("train", "reviews.csv", "--without", "suspects.csv", "--out", "runs", "-q")

    assert answer.status == 2
    assert "but reviews.csv has another text there. The data, or the way it is read, has" in (
        answer.err
    )


@pytest.mark.parametrize("change", ["append", "edit"])
@pytest.mark.usefixtures("flipped")
def test_changes_of_rows_that_the_list_does_not_name_are_an_error(
    change: str, lamatext: Command, place: Path
) -> None:
    lamatext("clean", "reviews.csv", "--out", "suspects.csv")
    listed = {row["row"] for row in read(place / "suspects.csv")}
    lines = (place / "reviews.csv").read_text().splitlines()
    assert str(len(lines)) not in listed
    lines += ["60,one more superb film,pos"] if change == "append" else []
    lines[-1] = lines[-1].replace(",", ",oh ", 1)
    (place / "reviews.csv").write_text("\n".join([*lines, ""]))

    answer = lamatext("train", "reviews.csv", "--without", "suspects.csv", "--out", "runs", "-q")

    assert answer.status == 2
    assert "suspects.csv: is a list for 60 texts, hash " in answer.err
    assert f"but reviews.csv has {len(lines) - 1} texts, hash " in answer.err


@pytest.mark.slow
def test_a_killed_search_continues_with_its_finished_folds(tmp_path: Path) -> None:
    write_flipped(tmp_path / "reviews.csv", 300)
    command = [sys.executable, "-m", "lamatext", "clean", "reviews.csv", "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "whole.csv"], cwd=tmp_path, check=True, capture_output=True)
    parts = tmp_path / "suspects.csv.partial"
    run = subprocess.Popen(
        [*command, "suspects.csv"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    while len(list(parts.glob("part-*.parquet"))) < 3:
        assert run.poll() is None
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    finished = {path: path.stat().st_mtime_ns for path in parts.glob("part-*.parquet")}
    assert not (tmp_path / "suspects.csv").exists()
    assert all(pq.read_metadata(path).num_rows for path in finished)

    done = subprocess.run(
        [*command, "suspects.csv"], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    assert "Continuing with the finished folds in suspects.csv.partial" in done.stderr
    assert (tmp_path / "suspects.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not parts.exists()


@pytest.mark.usefixtures("flipped")
def test_ctrl_c_says_what_is_kept_and_how_to_continue(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict_fold = OutOfFoldModels.predict_fold

    def stop_at_2(self: OutOfFoldModels, number: int, _: object) -> pa.Table:
        if number == 2:
            raise KeyboardInterrupt
        return predict_fold(self, number)

    arguments = ("clean", "reviews.csv", "--out", "suspects.csv")
    monkeypatch.setattr(sys, "argv", ["lamatext", *arguments])
    with monkeypatch.context() as patch:
        patch.setattr(OutOfFoldModels, "predict_fold", stop_at_2)
        stopped = lamatext(*arguments)
    continued = lamatext(*arguments)

    assert stopped.status == 130
    assert "finished folds are kept in suspects.csv.partial. Run it again" in stopped.err
    assert "  lamatext clean reviews.csv --out suspects.csv\n" in stopped.err
    assert "Continuing with the finished folds" in continued.err
    assert (place / "suspects.csv").is_file()


@pytest.mark.usefixtures("flipped")
def test_a_search_that_ends_between_its_outputs_continues_when_repeated(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    arguments = ("clean", "reviews.csv", "--out", "k/s.csv", "--html", "k/r.html")
    with monkeypatch.context() as patch:
        patch.setattr("lamatext.data.writers.open_writer", stop)
        assert lamatext(*arguments).status == 130
    visible = (path.name for path in (place / "k").iterdir() if path.name[0] != ".")
    assert sorted(visible) == ["r.html", "s.csv.partial"]
    with monkeypatch.context() as patch:
        patch.setattr(PartFolder, "delete", stop)
        assert lamatext(*arguments).status == 130
    assert (place / "k" / "s.csv").is_file()
    (place / "other.html").write_text("not of this command")

    other = lamatext(*arguments[:-1], "other.html")
    continued = lamatext(*arguments)
    refused = lamatext(*arguments)

    assert "other.html: already exists" in other.err
    assert continued.status == 0, continued.err
    assert "Continuing with the finished folds" in continued.err
    assert "k/r.html: already exists" in refused.err
    assert sorted(path.name for path in (place / "k").iterdir()) == ["r.html", "s.csv"]
