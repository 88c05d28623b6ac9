"""Little data is scored by cross-validation, with an interval, and the output says so."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_commands import SMALL
from tests.cli.test_next_commands import next_commands
from tests.corpora import reviews, write_csv, write_topics

TRAIN = ("--out", "run", *SMALL)


@pytest.fixture(autouse=True)
def _small_test_sets_are_replaced(
    monkeypatch: pytest.MonkeyPatch, _test_sets_may_be_small: None
) -> None:
    monkeypatch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 200)


def test_forty_rows_are_scored_by_cross_validation_with_an_interval(
    lamatext: Command, place: Path
) -> None:
    write_csv(place / "few.csv", 40)

    answer = lamatext("train", "few.csv", *TRAIN, "--baselines", "tfidf,avg", "--html", "a.html")

    assert answer.status == 0, answer.err
    assert "Training texts with their predictions and the reasons" in answer.out
    card = (place / "run" / "README.md").read_text()
    assert "scored by 5-fold cross-validation on the same texts" in card
    assert "Texts of the training data, with their true labels" in card
    assert '"split": "5-fold cross-validation"' in card
    page = (place / "a.html").read_text()
    assert "40 training texts" in page
    assert "It was trained on the texts below" in page
    assert "the scores are from 5-fold cross-validation" in answer.err
    assert "Scores of 5-fold cross-validation on 40 texts." in answer.out
    assert "95 % interval" in answer.out
    test = json.loads((place / "run" / "metrics.json").read_text())["test"]
    assert (test["texts"], test["folds"]) == (40, 5)
    low, high = test["accuracy_interval"]
    assert low < test["accuracy"] <= high
    assert high - low > 0.05
    config = json.loads((place / "run" / "config.json").read_text())
    assert (config["data"]["training_texts"], config["data"]["test_texts"]) == (40, 0)


@pytest.mark.parametrize("weights", [(), ("--set", "training.class_weight=balanced")])
def test_the_result_says_what_class_weights_are_good_for(
    weights: tuple[str, ...], lamatext: Command, place: Path
) -> None:
    write_csv(place / "few.csv", 40)

    answer = lamatext("train", "few.csv", *TRAIN, *weights)

    assert answer.status == 0, answer.err
    assert ("Class weights find more texts of rare classes" in answer.out) == bool(weights)


def test_several_labels_per_text_are_scored_by_cross_validation_with_an_interval(
    lamatext: Command, place: Path
) -> None:
    write_topics(place / "few.jsonl", 40)

    answer = lamatext("train", "few.jsonl", *TRAIN, "--baselines", "tfidf")

    assert answer.status == 0, answer.err
    assert "the scores are from 5-fold cross-validation" in answer.err
    assert "Scores of 5-fold cross-validation on 40 texts." in answer.out
    assert "95 % interval" in answer.out
    metrics = json.loads((place / "run" / "metrics.json").read_text())
    test = metrics["test"]
    assert (test["texts"], test["folds"]) == (40, 5)
    for scores in (test, *metrics["leaderboard"]):
        low, high = scores["micro_f1_interval"]
        assert low < scores["micro_f1"] < high
        assert high - low > 0.02
    own, baseline = metrics["leaderboard"]
    assert own["micro_f1"] == test["micro_f1"]
    assert baseline["micro_f1"] < 1  # not scored on the texts that it was trained on
    card = (place / "run" / "README.md").read_text()
    assert "scored by 5-fold cross-validation on the same texts" in card
    assert "95 % interval of the micro-F1" in card
    config = json.loads((place / "run" / "config.json").read_text())
    assert (config["data"]["training_texts"], config["data"]["test_texts"]) == (40, 0)


@pytest.mark.filterwarnings("always:.*seen once")
def test_a_label_that_occurs_once_is_scored_as_missed_and_reported_once(
    lamatext: Command, place: Path
) -> None:
    write_topics(place / "few.jsonl", 40)
    row = json.loads((place / "few.jsonl").read_text().splitlines()[0])
    with (place / "few.jsonl").open("a") as file:
        file.write("\n" + json.dumps({**row, "text": "an odd text", "labels": ["once"]}))

    answer = lamatext("train", "few.jsonl", *TRAIN, "--baselines", "tfidf")

    assert answer.status == 0, answer.err
    assert answer.err.count("seen once") == 1
    assert "1 label seen once counts as errors in the cross-validation: once." in " ".join(
        answer.err.split()
    )
    test = json.loads((place / "run" / "metrics.json").read_text())["test"]
    assert test["texts"] == 41
    assert {c["label"]: c["recall"] for c in test["classes"]}["once"] == 0


@pytest.mark.parametrize("groups", [(), ("--group-column", "customer")])
def test_texts_that_are_near_duplicates_are_too_few_to_hold_any_out(
    lamatext: Command, place: Path, groups: tuple[str, ...]
) -> None:
    rows = [f"order {n} was sent,a,1\nthe password {n} is lost,b,1\n" for n in range(30)]
    (place / "alike.csv").write_text("text,label,customer\n" + "".join(rows))

    answer = lamatext("train", "alike.csv", *TRAIN, *groups)

    assert answer.status == 2
    sets = "one set" if groups else "only 2 sets"
    assert f"60 texts from column 'text', in {sets} of texts that must stay" in answer.err


def test_no_command_scores_the_model_on_its_training_texts(lamatext: Command, place: Path) -> None:
    write_csv(place / "few.csv", 40)

    commands = next_commands(lamatext("train", "few.csv", *TRAIN))
    scored = lamatext("evaluate", "run", "few.csv")

    assert [command[1] for command in commands] == ["predict", "explain"]
    assert "TRAINED ON" in scored.err
    assert scored.out.startswith("TRAINING TEXTS: these scores say how well the model remembers")
    assert json.loads(lamatext("evaluate", "run", "few.csv", "--json").out)["is_training_data"]
    reported = lamatext("report", "run", "few.csv", "--out", "page.html")
    assert reported.out.startswith("40 training texts: how well the model labels new texts")
    assert "in 5-fold cross-validation" in (place / "page.html").read_text()


def test_a_split_by_time_says_its_dates_and_why_there_is_no_cross_validation(
    lamatext: Command, place: Path
) -> None:
    texts, labels = reviews(40)
    dates = [f"2026-{1 + i // 20:02}-{1 + i % 20:02}" for i in range(40)]
    rows = zip(dates, texts, labels, strict=True)
    lines = [",".join(row) for row in rows]
    (place / "dated.csv").write_text("\n".join(["date,text,label", *lines, ""]))

    answer = lamatext("train", "dated.csv", *TRAIN, "--time-column", "date")

    shown = " ".join(answer.err.split())
    assert "training texts 2026-01-01 to " in shown
    assert ", test texts 2026-02-17 to 2026-02-20" in shown
    assert "4 test texts: few, so the score is uncertain. With --time-column there is no" in shown
    assert "Test texts with their predictions" in answer.out


def test_groups_that_mix_the_times_of_the_test_set_are_reported(
    lamatext: Command, place: Path
) -> None:
    texts, labels = reviews(40)
    rows = [f"2026-{1 + i // 20:02}-{1 + i % 20:02},c{i // 2 % 10}" for i in range(40)]
    lines = [",".join(row) for row in zip(rows, texts, labels, strict=True)]
    (place / "dated.csv").write_text("\n".join(["date,customer,text,label", *lines, ""]))

    answer = lamatext(
        "train", "dated.csv", *TRAIN, "--time-column", "date", "--group-column", "customer"
    )

    assert answer.status == 0, answer.err
    assert "some training texts are newer than test texts" in " ".join(answer.err.split())


def test_a_given_test_file_is_used_however_small(lamatext: Command, place: Path) -> None:
    write_csv(place / "few.csv", 40)
    write_csv(place / "test.csv", 8, seed=1)

    answer = lamatext("train", "few.csv", *TRAIN, "--test", "test.csv", "--json")

    scores = json.loads(answer.out)
    assert (scores["texts"], scores["folds"]) == (8, 0)
    assert scores["accuracy_interval"][0] < 0.9


def test_a_finished_cross_validation_is_recognized_by_resume(
    lamatext: Command, place: Path
) -> None:
    write_csv(place / "few.csv", 40)
    lamatext("train", "few.csv", *TRAIN)

    answer = lamatext("train", "few.csv", *TRAIN, "--resume")

    assert "the run is already finished" in answer.err


def test_nine_texts_are_too_few(lamatext: Command, place: Path) -> None:
    write_csv(place / "few.csv", 9)

    answer = lamatext("train", "few.csv", *TRAIN)

    assert answer.status == 2
    assert "few.csv: 9 texts" in answer.err
    assert "too few to hold any out" in answer.err
