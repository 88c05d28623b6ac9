"""The default recipe's held-out accuracy next to an earlier commit's."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import recipe_history
from benchmarks.__main__ import main
from benchmarks.recipe_history import SHOWN_DATASETS, history_table
from benchmarks.training_cost import BEFORE, BEFORE_COMMIT, NOW
from paper.records import Record, Records
from tests.corpora import reviews


def test_the_table_has_means_over_seeds_and_over_data_sets() -> None:
    accuracies = {BEFORE: (0.96, 0.98), NOW: (0.97, 0.99), f"{NOW}:training.epochs=8": (0.5,)}
    records = [
        Record("recipe_history", dataset, system, "accuracy", value, seed)
        for dataset in SHOWN_DATASETS
        for system, values in accuracies.items()
        for seed, value in enumerate(values)
    ]

    now, before, trial = history_table(records).splitlines()[2:]

    assert now == "| now |" + " 0.9800 ± 0.0141 (2) |" * 5 + " 0.9800 |"
    assert before == "| c912fba |" + " 0.9700 ± 0.0141 (2) |" * 5 + " 0.9700 |"
    assert trial.startswith("| now:training.epochs=8 | – |")


def test_both_recipes_train_on_the_same_texts_and_are_scored_on_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, labels = reviews(100, seed=0)
    pq.write_table(pa.table({"text": texts, "label": labels}), tmp_path / "train.parquet")
    trained: dict[str, list[set[str]]] = {}

    def train(command: list[str], environment: dict[str, str]) -> None:
        files = [argument for argument in command if argument.endswith(".parquet")]
        system = BEFORE if "--rivals" in command else NOW
        trained[system] = [set(pq.read_table(file)["text"].to_pylist()) for file in files]
        assert (str(tmp_path / "old" / "src") in environment["PYTHONPATH"]) == (system == BEFORE)
        assert ("--set=training.epochs=8" in command) == (system == NOW)
        model = Path(command[-1])
        model.mkdir()
        scores = {"test": {"accuracy": 0.9, "calibration_error": 0.01}}
        (model / "metrics.json").write_text(json.dumps(scores))

    monkeypatch.setattr(recipe_history, "run_training", train)
    systems = ["--systems", "now:training.epochs=8,before"]
    options = ["--before", str(tmp_path / "old"), "--records", str(tmp_path / "records")]

    assert (
        main(["recipe-history", "--datasets", str(tmp_path), "--seeds", "3", *systems, *options])
        == 0
    )

    assert trained[NOW] == trained[BEFORE]
    train_texts, validation, held_out = trained[NOW]
    assert not train_texts & held_out
    assert not validation & held_out
    records = Records(tmp_path / "records").of(recipe_history.EXPERIMENT)
    assert {r.metric for r in records} == {"accuracy", "calibration_error", "bytes"}
    assert {r.commit for r in records if r.model == BEFORE} == {BEFORE_COMMIT}
    assert {r.seed for r in records} == {3}
