"""The benchmark of several labels per text: its parts of the data, its records and its table."""

import json
from pathlib import Path

from benchmarks import multi_label
from benchmarks.accuracy_jobs import AccuracyJob
from benchmarks.leaderboard_tables import TITLES, label_table, multi_label_table
from paper.records import Record, Records
from tests.corpora import topic_texts


def write_parts(folder: Path) -> str:
    for seed, part in enumerate(("train", "test")):
        texts, labels = topic_texts(240, seed=seed)
        rows = [{"text": t, "labels": row} for t, row in zip(texts, labels, strict=True)]
        (folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(folder)


def test_with_validation_a_tenth_of_the_training_texts_stands_in_for_the_test_part(
    tmp_path: Path,
) -> None:
    folder = write_parts(tmp_path)

    plain = multi_label.load_splits(folder)
    splits = multi_label.load_splits(folder, validation=True)

    train, held_out = splits.train.texts.to_pylist(), splits.test.texts.to_pylist()
    assert len(plain.test) == 240
    assert 20 <= len(held_out) <= 28
    assert sorted(train + held_out) == sorted(plain.train.texts.to_pylist())


def test_a_baseline_is_recorded_with_all_metrics_once(tmp_path: Path) -> None:
    folder, records = tmp_path / "topics", tmp_path / "records"
    folder.mkdir()
    write_parts(folder)

    for _ in range(2):
        multi_label.run(str(folder), seeds="", baselines="tfidf-svc", records=records)

    measured = Records(records).of(multi_label.EXPERIMENT)
    by_label = [f"label_{name}" for name in multi_label.LABEL_METRICS]
    assert [record.metric for record in measured] == [*multi_label.METRICS, *by_label]
    assert set(measured[-1].value) == {"film", "food", "sport", "war"}  # type: ignore[arg-type]
    assert {(record.dataset, record.model, record.seed) for record in measured} == {
        ("topics", "tfidf-svc", None)
    }
    assert measured[0].number > 0.9


def test_the_table_shows_means_with_the_best_bold_and_no_validation_scores(tmp_path: Path) -> None:
    values = {
        ("default", 0): 0.5,
        ("default", 1): 0.7,
        ("tfidf", None): 0.4,
        ("student@validation", 0): 1,
    }
    records = Records(tmp_path)
    records.add(
        Record(multi_label.EXPERIMENT, "reuters", model, metric, value, seed, device="cpu")
        for (model, seed), value in values.items()
        for metric in multi_label.METRICS
    )

    header, _, first, second = multi_label_table(records, "reuters").splitlines()

    assert "| Hamming loss |" in header
    assert first.startswith(f"| {TITLES['default']} | **0.6000 ± 0.1414** |")
    assert second.startswith(f"| {TITLES['tfidf']} | 0.4000 |")
    assert "| **0.4000** |" in second  # the lowest Hamming loss


def test_the_records_of_a_student_say_how_long_its_teacher_may_take() -> None:
    student, default = (
        multi_label._record_of(AccuracyJob("reuters", name, 0)) for name in ("student", "default")
    )

    assert student.config == {"distillation.teacher_minutes": 60.0}
    assert default.config == {}


def test_the_table_of_labels_shows_the_means_of_each_label(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add(
        Record(
            multi_label.EXPERIMENT,
            "reuters",
            model,
            f"label_{name}",
            {"earn": value, "rye": 0.0} if name != "texts" else {"earn": 9, "rye": 1},
            seed,
        )
        for model, seed, value in (("default", 0, 0.5), ("default", 1, 0.7), ("tfidf", None, 0.4))
        for name in multi_label.LABEL_METRICS
    )

    lines = label_table(records, "reuters").splitlines()

    assert lines[2:] == [
        "| earn | 9 | 0.600 | 0.600 | 0.600 | 0.400 |",
        "| rye | 1 | 0.000 | 0.000 | 0.000 | 0.000 |",
    ]
