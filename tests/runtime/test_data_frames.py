from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pytest

from lamatext.errors import DataError
from lamatext.runtime.predictor import Predictor
from tests.runtime.test_predictor import MODEL, TEXTS


@pytest.fixture(scope="module")
def model() -> Predictor:
    return Predictor.load(MODEL)


@pytest.mark.parametrize("collect", [pd.Series, pl.Series, pd.DataFrame, pl.DataFrame])
def test_texts_may_be_a_column_of_pandas_or_polars(
    model: Predictor, collect: Callable[[list[str]], Any]
) -> None:
    assert model.predict(collect(TEXTS)).tolist() == model.predict(TEXTS).tolist()
    assert len(model.transform(collect(TEXTS))) == len(TEXTS)


@pytest.mark.parametrize("library", [pd, pl])
def test_a_table_of_two_columns_is_an_error_that_says_to_choose_one(
    model: Predictor, library: Any
) -> None:
    table = library.DataFrame({"text": TEXTS, "label": TEXTS})

    with pytest.raises(DataError, match=r"one column of texts, got DataFrame of shape \(6, 2\)"):
        model.predict_proba(table)
