"""docs/format.md describes the folder as the code writes it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.read_options import Layout
from lamatext.ngrams.hashing import NgramSpec, hash_ngrams
from lamatext.nn.network import build_network
from lamatext.pipeline import Splits, describe_splits
from lamatext.saved import json_types
from lamatext.saved.format import (
    FILES,
    NGRAMS_OF_FORMAT_1,
    RENAMED,
    RETIRED,
    TOKENIZER_SETTINGS,
    load_config,
)
from lamatext.saved.model_io import load_model, save_model
from lamatext.settings import Recipe
from tests.runtime.networks import SYSTEMS, settings
from tests.serve.saved import save

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
MENTIONED = set(re.findall(r"`([^`\n]+)`", DOCUMENT))
SOURCE = Path(json_types.__file__).read_text(encoding="utf-8")
ROWS = np.arange(1)
OPTIONS: list[dict[str, object]] = [
    {},
    {"classifier_width": 0},
    {"initial_temperature": 8.0},
    {"score_input": "states"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", [*SYSTEMS, "te"])
def test_every_tensor_of_the_network_is_listed(name: str, options: dict[str, object]) -> None:
    model = settings(name, **{"heads": 4, **options})

    network = build_network(model, vocabulary=9, width=12, classes=3)

    assert network.state_dict().keys() <= MENTIONED


def test_every_file_and_tokenizer_setting_is_listed() -> None:
    assert {*FILES, NGRAMS_OF_FORMAT_1, *TOKENIZER_SETTINGS} <= MENTIONED


def test_every_key_of_the_config_is_listed(tmp_path: Path) -> None:
    assert load_config(save(tmp_path)).keys() <= MENTIONED


@pytest.mark.parametrize("name", re.findall(r"^(_[A-Z_]+): _Fields", SOURCE, re.MULTILINE))
def test_every_validated_field_is_listed(name: str) -> None:
    fields = vars(json_types)[name]

    assert fields.keys() <= MENTIONED


def test_every_table_of_settings_is_listed() -> None:
    assert Recipe.model_fields.keys() <= MENTIONED


def table_keys(title: str) -> set[str]:
    """Return the keys in the first column of the table below a line of the document."""
    table = DOCUMENT.partition(title)[2].partition("|---|")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[1:]]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def test_the_tables_of_the_training_data_list_exactly_what_is_validated() -> None:
    assert table_keys("### The training data") == {*json_types._DATA, "layout"}
    assert table_keys("`data.layout` has these keys") == json_types._LAYOUT.keys()
    assert Layout().as_json().keys() == json_types._LAYOUT.keys()


def test_everything_that_training_saves_about_its_data_is_validated() -> None:
    part = Dataset(pa.chunked_array([["a film", "a bore"]]), pa.chunked_array([["a", "b"]]), "x")
    splits = Splits(
        replace(part, left_out=(3,)),
        part,
        part,
        teacher="minilm",
        unlabelled=("a film",),
        moved=(1,),
        test_source="test.csv",
    )

    saved = {*describe_splits(splits), *describe_splits(replace(splits, folds=((ROWS, ROWS),)))}

    assert saved | {"texts", "fingerprint", "sketch"} == {*json_types._DATA, "layout"}


def test_every_array_of_the_n_gram_model_is_listed(tmp_path: Path) -> None:
    model = load_model(save(tmp_path, ngrams=True))

    assert model.ngrams is not None
    names = {re.sub(r"^\d", "t", name) for name in model.ngrams.to_tensors()}
    assert names <= MENTIONED


def test_every_renamed_and_retired_setting_of_format_1_is_listed() -> None:
    for table, renamed in RENAMED.items():
        new_table = "ngrams" if table == "wide" else table
        for old, new in renamed.items():
            assert re.search(rf"\| `{table}\.{old}`.* \| `{new_table}\.{new}`", DOCUMENT), old
    for table, retired in RETIRED.items():
        assert {f"{table}.{name}" for name in retired} <= MENTIONED


def test_the_example_keys_of_n_grams_are_right() -> None:
    words = hash_ngrams(["good", "film"], NgramSpec(2, None)).keys
    two = hash_ngrams(["ok"], NgramSpec(0, (2, 2))).keys
    three = hash_ngrams(["ok"], NgramSpec(0, (3, 3))).keys

    examples = re.findall(r"`(0x[0-9a-f]{8})`", DOCUMENT)

    assert [int(key, 16) for key in examples] == [*words, two[0], three[-1]]


def test_a_format_1_folder_is_saved_with_the_files_of_format_2(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "fixtures" / "format-1"

    save_model(tmp_path, load_model(old))

    assert {path.name for path in tmp_path.iterdir()} == set(FILES) - {NGRAMS_OF_FORMAT_1}
