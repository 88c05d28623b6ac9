import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lamatext.data.sources import has_test_split, load_dataset, open_table
from lamatext.errors import DataError, MissingExtraError

datasets = pytest.importorskip("datasets", reason="the extra hub is not installed")

Answers = dict[tuple[str, str | None, str], Any]  # by address, config and part


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """A stand-in for the Hub that holds what the test puts there."""
    answers: Answers = {}

    def load_dataset(path: str, config: str | None, *, split: str) -> Any:
        if (path, config, split) not in answers:
            raise ValueError(f"Dataset '{path}' doesn't exist on the Hub.\nA long story.")
        return answers[path, config, split]

    def parts(path: str, config: str | None) -> list[str]:
        found = [part for address, name, part in answers if (address, name) == (path, config)]
        if not found:
            raise ConnectionError("no network")
        return found

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(datasets, "get_dataset_split_names", parts)
    return answers


def first_rows(source: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = next(open_table(source).all_batches()).to_pylist()
    return rows


def reviews(names: list[str], text: str = "text", labels: Sequence[int] = (1, 0, 1)) -> Any:
    classes = datasets.ClassLabel(names=names)
    features = datasets.Features({text: datasets.Value("string"), "label": classes})
    rows = {text: ["a", "b", "c"], "label": list(labels)}
    return datasets.Dataset.from_dict(rows, features=features)


def test_class_indices_become_class_names(hub: Answers) -> None:
    hub["owner/name", None, "train"] = reviews(["neg", "pos"], text="sentence")

    dataset = load_dataset("hf:owner/name")

    assert dataset.labels is not None
    assert dataset.labels.to_pylist() == ["pos", "neg", "pos"]
    assert (dataset.layout.text_columns, dataset.layout.label_columns) == (
        ("sentence",),
        ("label",),
    )
    assert first_rows("hf:owner/name")[1] == {
        "sentence": "b",
        "label": "neg",
    }


def test_config_and_split_are_passed_to_the_hub(hub: Answers) -> None:
    hub["owner/name", "small", "test"] = reviews(["neg", "pos"])

    assert len(load_dataset("hf:owner/name:small", split="test")) == 3
    assert has_test_split("hf:owner/name:small")


def test_a_row_without_class_is_a_missing_label(hub: Answers) -> None:
    hub["owner/name", None, "train"] = reviews(["neg", "pos"], labels=(-1, 0, 1))

    with pytest.raises(DataError, match=r"hf:owner/name: row 1: no label"):
        load_dataset("hf:owner/name")


@pytest.mark.usefixtures("hub")
def test_a_hub_failure_is_reported_in_one_sentence() -> None:
    message = "hf:no/such, split 'train': cannot be read from the Hub: .* doesn't exist on the Hub"
    with pytest.raises(DataError, match=message) as caught:
        load_dataset("hf:no/such")
    with pytest.raises(DataError, match="hf:no/such: cannot be read from the Hub: no network"):
        has_test_split("hf:no/such")

    assert "long story" not in str(caught.value)


@pytest.mark.parametrize("source", ["hf:imdb", "hf:", "hf:a/b/c", "hf:/a", "hf:a/"])
def test_a_hub_address_needs_owner_and_name(source: str) -> None:
    with pytest.raises(DataError, match=r"expected hf:OWNER/NAME"):
        load_dataset(source)


def test_the_missing_hub_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'lamatext\[hub\]'"):
        load_dataset("hf:owner/name")


def test_named_data_sets_are_loaded_from_the_hub_last(
    hub: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMATEXT_DATA", raising=False)
    hub["Yelp/yelp_review_full", None, "train"] = reviews(["1 star", "2 star"])
    hub["fancyzhx/yelp_polarity", None, "train"] = reviews(["1", "2"])

    stars, polarity = load_dataset("yelp"), load_dataset("yelp-polarity")

    assert stars.labels is not None
    assert polarity.labels is not None
    assert stars.labels.to_pylist() == ["2", "1", "2"]
    assert polarity.labels.to_pylist() == ["pos", "neg", "pos"]
    assert has_test_split("yelp")


@pytest.mark.usefixtures("hub")
def test_the_error_for_an_unavailable_data_set_says_where_to_put_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LAMATEXT_DATA", raising=False)

    with pytest.raises(DataError, match=r"LAMATEXT_DATA is not set; hf:stanf.*Put train.parquet"):
        load_dataset("imdb")


def test_a_local_folder_is_read_by_the_datasets_library_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    (tmp_path / "owner" / "name" / "train.csv").write_text("text,label\ngood,01\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)

    assert load_dataset("hf:owner/name").texts.to_pylist() == ["good"]
