"""``lamatext train``, ``evaluate`` and ``predict`` with several labels per text."""

import json
import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import average_precision_score, f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from lamatext.cli.main import run
from tests.corpora import topic_texts, write_topics
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
def test_info_calls_the_validation_score_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "model", "-q"]) == 0

    shown = capsys.readouterr().out
    assert ", 4 labels, " in shown
    assert "validation mean average precision: " in shown
    assert "validation accuracy" not in shown


@pytest.mark.usefixtures("folder")
def test_evaluate_prints_the_interval_of_micro_f1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "model", "topics.jsonl", "-q"]) == 0

    assert re.search(
        r"^micro-F1 [01]\.\d{3} \(95 % interval [01]\.\d{3} to [01]\.\d{3}\)",
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


def test_average_precision_from_a_written_file_is_that_of_evaluate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", "model", "topics.jsonl", "--proba", "--out", "out.csv", "-q"]) == 0
    assert run(["evaluate", "model", "topics.jsonl", "--json", "-q"]) == 0

    table = pd.read_csv("out.csv")[["p(film)", "p(food)", "p(sport)", "p(war)"]]
    matrix = MultiLabelBinarizer().fit([["film", "food", "sport", "war"]]).transform(truth(folder))
    expected = average_precision_score(matrix, table.to_numpy(), average="macro")
    scores = json.loads(capsys.readouterr().out)
    assert scores["mean_average_precision"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("default")
def test_missing_label_columns_give_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "the actor,1,0\nthe kitchen,0,1\n"
    (folder / "two.csv").write_text(f"text,film,food\n{rows}", encoding="utf-8")
    columns = ["--label-column", "film", "--label-column", "food"]

    assert run(["evaluate", "model", "two.csv", *columns, "-q"]) == 0

    assert "missing for 2 labels of 4: sport, war" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "topics.jsonl", "--out", "run", "--min-precision", "0"], "--min-precision (0)"),
        (["train", "topics.jsonl", "--out", "run", "--min-precision", "1"], "--min-precision (1)"),
        (["train", "topics.jsonl", "--out", "run", "--metric", "f1"], "--metric f1: unknown"),
        (["predict", "model", "--text", "the actor", "--top-k", "2"], "--top-k: the model gives"),
    ],
)
def test_options_that_do_not_fit_are_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2

    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--metric", "micro-f1"), ("--min-precision", "0.9")])
def test_a_goal_of_thresholds_needs_several_labels(
    folder: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    texts, labels = topic_texts(240, seed=1)
    rows = [
        f"{text},{'film' if 'film' in row else 'other'}"
        for text, row in zip(texts, labels, strict=True)
    ]
    (folder / "one.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")

    assert run(["train", "one.csv", "--out", "run", *option, "-q"]) == 2

    assert f"{option[0]} is for several labels per text, but one.csv has" in capsys.readouterr().err


def test_a_test_file_with_another_form_of_labels_is_an_error_before_training(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = zip(*topic_texts(80, seed=5), strict=True)
    rows = [{"text": t, "label": (found or ["none"])[0]} for t, found in pairs]
    (folder / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert run(["train", "one.jsonl", "--test", "topics.jsonl", "--out", "new", "-q"]) == 2

    shown = " ".join(capsys.readouterr().err.split())
    assert "topics.jsonl: several labels per text, but one in one.jsonl" in shown
    assert not (folder / "new").exists()
