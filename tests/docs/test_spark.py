"""The function for Spark in ``docs/scale.md`` labels a data frame on local PySpark."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from lamatext.runtime.predictor import Predictor
from tests.corpora import reviews
from tests.docs.test_examples import blocks
from tests.trained_model import trained


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PySpark
def test_the_spark_function_of_the_guide_gives_the_labels_of_the_predictor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark")
    if shutil.which("java") is None:
        pytest.skip("needs java")
    [code] = [code for _, _, code in blocks("scale.md") if "mapInArrow" in code]
    folder = trained().save(tmp_path / "model")
    texts, _ = reviews(60, seed=7)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()

    try:
        frame = spark.createDataFrame(list(enumerate(texts)), "id long, text string")
        names = {"texts": frame.repartition(3)}
        exec(code.replace("/models/reviews", str(folder)), names)
        rows = sorted(names["labelled"].collect())
    finally:
        spark.stop()

    assert [row["id"] for row in rows] == list(range(60))
    assert [row["label"] for row in rows] == Predictor.load(folder).predict(texts).tolist()
    assert all(0.5 <= row["probability"] <= 1 for row in rows)
