from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.readers.format_detection import file_table
from lamatext.data.writers import open_writer
from lamatext.runtime.predict_table import predict_batches
from lamatext.runtime.predictor import Predictor

MODEL = Path(__file__).parents[1] / "fixtures" / "format-1"
TEXTS = ["a superb film", None, "a dull film"]


@pytest.fixture(scope="module")
def model() -> Predictor:
    return Predictor.load(MODEL)


def batch(**columns: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_label_and_probability_are_added_after_the_columns_of_the_input(model: Predictor) -> None:
    table = batch(id=["7", "8", "9"], text=TEXTS)

    (result,) = predict_batches(model, [table], ["text"])

    assert result.schema.names == ["id", "text", "label", "probability"]
    assert result.select(["id", "text"]) == table
    texts = [text or "" for text in TEXTS]  # a missing text is read as empty
    assert result["label"].to_pylist() == model.predict(texts).tolist()
    expected = model.predict_proba(texts).max(axis=1).tolist()
    assert result["probability"].to_pylist() == expected


def test_all_labels_and_all_probabilities_can_be_added(model: Predictor) -> None:
    (result,) = predict_batches(model, [batch(text=TEXTS)], ["text"], top_k=9, proba=True)

    assert result.schema.names[1:5] == ["label", "probability", "label_2", "probability_2"]
    assert result.schema.names[5:] == ["p(neg)", "p(pos)"]
    for row in result.to_pylist():
        assert {row["label"], row["label_2"]} == {"neg", "pos"}
        assert row["probability"] == row[f"p({row['label']})"] >= row["probability_2"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_written_file_has_every_digit_of_the_probabilities(
    model: Predictor, tmp_path: Path, ending: str
) -> None:
    texts, path = ["a superb film", "a dull film", "film"], tmp_path / f"labelled.{ending}"

    with open_writer(path) as write:
        for part in predict_batches(model, [batch(text=list(texts))], ["text"], proba=True):
            write(part)

    table = file_table(str(path)).all_batches()
    columns = pa.Table.from_batches(table).select(["p(neg)", "p(pos)"]).to_pydict()
    written = np.array(list(columns.values()), np.float64).T.astype(np.float32)
    assert written.tolist() == model.predict_proba(texts).tolist()


def test_a_name_that_the_input_has_already_gets_a_prefix(model: Predictor) -> None:
    table = batch(text=["a film"], label=["pos"], predicted_label=["neg"])

    (result,) = predict_batches(model, [table], ["text"])

    assert result.schema.names[-2:] == ["predicted_predicted_label", "probability"]
    assert result["label"].to_pylist() == ["pos"]


def test_batches_are_predicted_one_after_the_other(model: Predictor) -> None:
    results = predict_batches(model, (batch(text=["a film"]) for _ in range(3)), ["text"])

    assert [len(result) for result in results] == [1, 1, 1]


@pytest.mark.filterwarnings("default")
def test_empty_texts_are_counted_in_a_warning(model: Predictor) -> None:
    batches = [batch(text=["a film", ""]), batch(text=["  ", None])]

    with pytest.warns(UserWarning, match=r"^3 texts are empty: their predictions are not"):
        assert len(list(predict_batches(model, batches, ["text"]))) == 2


@pytest.mark.filterwarnings("ignore:.*empty")
def test_a_model_that_cannot_score_outliers_tells_which_texts_are_empty(model: Predictor) -> None:
    assessments = replace(model, validation=None).assess_each(["a film", " \n"])

    assert [assessment.empty for assessment in assessments] == [False, True]
