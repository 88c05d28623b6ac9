"""The accuracy table: ties on validation, rows of pretrained encoders, the paper's own protocol."""

from pathlib import Path

from paper.accuracy_table import best_on_validation, folds_table, format_ties, published_table
from paper.protocol import BERT_BASE, MINILM
from paper.records import Records
from paper.training_run import Settings, TrainingRun


def add(
    records: Records,
    run: TrainingRun,
    *,
    validation: float,
    test: float,
) -> None:
    values = {"validation_accuracy": validation, "accuracy": test}
    records.add(run.record(metric, value) for metric, value in values.items())


def test_seeds_that_tie_on_validation_are_all_shown(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for seed, validation, test in ((0, 0.97, 0.9589), (1, 0.97, 0.9616), (2, 0.96, 0.99)):
        run = TrainingRun("accuracy", "r8", "lama-ctx", seed)
        add(records, run, validation=validation, test=test)

    tied = best_on_validation(records, "r8", "lama-ctx")

    assert [record.seed for record in tied] == [0, 1]
    assert format_ties(tied) == ".959 = .962"
    assert ".959 = .962 / .973" in published_table(records)


def test_the_best_fold_of_all_numbers_of_heads_is_reported(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for heads, fold, validation, test in ((1, 0, 0.9, 0.1), (5, 2, 0.95, 0.2), (5, 1, 0.8, 0.3)):
        settings: Settings = (("model.heads", heads),)
        run = TrainingRun("folds", "r8", "lama-ctx", 0, fold, settings)
        add(records, run, validation=validation, test=test)

    assert "| LAMA+ctx | .200 / .973 |" in folds_table(records)


def test_bert_and_minilm_have_rows_of_their_own(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for settings, accuracy in ((BERT_BASE, 0.5), (MINILM, 0.6)):
        run = TrainingRun("accuracy", "r8", "bert", 0, None, settings)
        add(records, run, validation=0.9, test=accuracy)

    found = {
        model: [record.number for record in best_on_validation(records, "r8", model)]
        for model in ("bert", "minilm")
    }

    assert found == {"bert": [0.5], "minilm": [0.6]}
