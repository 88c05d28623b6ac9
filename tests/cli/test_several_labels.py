"""``lamatext train``, ``evaluate`` and ``predict`` with several labels per text."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from lamatext.cli.main import run
from tests.corpora import write_topics
from tests.test_multi_label import fitted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fitted().save(tmp_path / "model")
    write_topics(tmp_path / "topics.jsonl", 80, seed=4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def truth(folder: Path) -> list[list[str]]:
    lines = (folder / "topics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["labels"] for line in lines]


def test_the_scores_are_those_of_scikit_learn_on_the_predicted_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", "model", "topics.jsonl", "--out", "out.parquet", "-q"]) == 0
    assert run(["evaluate", "model", "topics.jsonl", "--json", "-q"]) == 0

    binarizer = MultiLabelBinarizer().fit([["film", "food", "sport", "war"]])
    predicted = pq.read_table("out.parquet")["predicted_labels"].to_pylist()
    matrices = binarizer.transform(truth(folder)), binarizer.transform(predicted)
    scores = json.loads(capsys.readouterr().out)
    assert scores["micro_f1"] == pytest.approx(f1_score(*matrices, average="micro"), abs=1e-9)
    assert scores["macro_f1"] == pytest.approx(f1_score(*matrices, average="macro"), abs=1e-9)


@pytest.mark.usefixtures("folder")
def test_evaluate_prints_the_interval_of_micro_f1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "model", "topics.jsonl", "-q"]) == 0

    assert re.search(
        r"^micro-F1 [01]\.\d{3} \(95 % interval [01]\.\d{3}–[01]\.\d{3}\)",
        capsys.readouterr().out,
    )


def test_csv_joins_the_labels_and_jsonl_lists_them(folder: Path) -> None:
    joined = ["--out", "out.csv", "--label-separator", "|", "--proba", "-q"]
    assert run(["predict", "model", "topics.jsonl", *joined]) == 0
    assert run(["predict", "model", "topics.jsonl", "--out", "out.jsonl", "-q"]) == 0

    first = json.loads((folder / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])
    header, row, *_ = (folder / "out.csv").read_text(encoding="utf-8").splitlines()
    assert header.endswith('"predicted_labels","p(film)","p(food)","p(sport)","p(war)"')
    assert isinstance(first["predicted_labels"], list)
    assert f'"{"|".join(first["predicted_labels"])}"' in row


def test_one_label_per_text_does_not_fit_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.csv").write_text("text,labels\nthe actor,film\n", encoding="utf-8")

    assert run(["evaluate", "model", "one.csv", "-q"]) == 2

    assert "trained with a list of labels per text" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("value", ["0", "1", "1.5", "-1"])
def test_a_precision_out_of_range_is_an_error(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "topics.jsonl", "--out", "run", "--min-precision", value]

    assert run(arguments) == 2

    assert "training.min_precision" in capsys.readouterr().err
