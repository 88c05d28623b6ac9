"""``predict --outlier``: columns that show which texts are unlike the training texts."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq

from lamatext import Predictor
from tests.cli.conftest import Command

FORMAT_1 = str(Path(__file__).parents[1] / "fixtures" / "format-1")


def test_outlier_adds_a_score_and_a_verdict_to_each_row(lamatext: Command) -> None:
    with Path("more.csv").open("a") as file:
        file.write(Path("reviews.csv").read_text() + ",pos\nzonk quux blarg,pos\n")

    answer = lamatext("predict", "model", "more.csv", "--outlier")
    lamatext("predict", "model", "more.csv", "--outlier", "--out", "out.parquet")

    rows = list(csv.DictReader(answer.out.splitlines()))
    scores = [float(row["outlier_score"]) for row in rows]
    assert [row["outlier"] for row in rows] == [str(s >= 0.99).lower() for s in scores]
    assert rows[-1]["outlier"] == "true"
    texts = [row["text"] for row in rows]
    expected = Predictor.load("model").assess(texts).outlier_scores
    assert max(abs(a - b) for a, b in zip(scores, expected, strict=True)) < 1e-5
    table = pq.read_table("out.parquet")
    assert table["outlier"].to_pylist() == [row["outlier"] == "true" for row in rows]
    assert [row["empty"] for row in rows[-2:]] == ["true", "false"]
    assert table["empty"].to_pylist() == [row["empty"] == "true" for row in rows]


def test_outlier_scores_a_text_of_the_command_line(lamatext: Command) -> None:
    shown = lamatext("predict", "model", "--text", "zonk quux", "--outlier")
    as_json = lamatext("predict", "model", "--text", "zonk quux", "--outlier", "--json")

    result = json.loads(as_json.out)
    assert result["outlier"] is True
    assert f"outlier score {result['outlier_score']:.4f}" in shown.out


def test_a_model_without_validation_statistics_is_an_error(lamatext: Command) -> None:
    for more in (["--text", "a film"], ["reviews.csv"]):
        answer = lamatext("predict", FORMAT_1, *more, "--outlier")

        assert answer.status == 2
        assert "no statistics of its validation texts" in answer.err
