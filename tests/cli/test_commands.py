import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lamatext import TextClassifier, __version__
from lamatext.cli.main import COMMANDS
from tests.cli.conftest import Command
from tests.corpora import TINY, write_csv

SMALL = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}".lower())]
ESCAPE = "\x1b"


def train(lamatext: Command, *more: str, data: str = "reviews.csv") -> None:
    answer = lamatext("train", data, "--out", "run", *SMALL, *more)
    assert answer.status == 0, answer.err


# train


def test_training_saves_a_model_and_names_the_next_step(lamatext: Command, place: Path) -> None:
    answer = lamatext("train", "reviews.csv", "--out", "runs/new", *SMALL)

    assert answer.status == 0
    assert "TF-IDF + LR" in answer.out
    assert "lama-ctx" in answer.out
    assert "Saved to runs/new" in answer.out
    assert "texts from column 'text', labels from column 'label'" in answer.err
    assert "48 training texts, 6 validation texts, 6 test texts" in answer.err
    assert "epoch 2/2" in answer.err
    headings = [line for line in answer.err.splitlines() if line and line[0] != " "]
    assert headings == ["Data", "Training", "Result", "Next:"]
    assert "lamatext predict runs/new --text 'your text'" in answer.err
    assert not (place / "runs/new/checkpoint.safetensors").exists()
    assert lamatext("predict", "runs/new", "--text", "superb").status == 0


def test_columns_can_be_named(lamatext: Command, place: Path) -> None:
    text = (place / "reviews.csv").read_text().replace("text,label", "Was,Urteil (1-5)", 1)
    (place / "odd.csv").write_text(text)

    train(lamatext, "--text-column", "Was", "--label-column", "Urteil (1-5)", data="odd.csv")


def test_scores_come_as_json(lamatext: Command) -> None:
    answer = lamatext(
        "train", "reviews.csv", "--out", "run", "--json", "--baselines", "none", *SMALL
    )

    found = json.loads(answer.out)
    assert found["folder"] == "run"
    assert found["texts"] == 6


def test_quiet_prints_only_the_result(lamatext: Command) -> None:
    answer = lamatext("train", "reviews.csv", "--out", "run", "--quiet", *SMALL)

    assert answer.err == ""
    assert "accuracy" in answer.out


def test_a_test_file_is_scored(lamatext: Command, place: Path) -> None:
    write_csv(place / "test.csv", 14, seed=3)

    answer = lamatext(
        "train", "reviews.csv", "--test", "test.csv", "--out", "run", "--json", *SMALL
    )

    assert json.loads(answer.out)["texts"] == 14


def test_given_validation_and_test_files_are_used(lamatext: Command, place: Path) -> None:
    write_csv(place / "test.csv", 14, seed=3)
    write_csv(place / "validation.csv", 12, seed=4)

    answer = lamatext(
        "train",
        "reviews.csv",
        "--test",
        "test.csv",
        "--validation",
        "validation.csv",
        "--out",
        "run",
        *SMALL,
    )

    assert "60 training texts, 12 validation texts, 14 test texts" in answer.err


def test_training_reads_stdin(lamatext: Command, place: Path) -> None:
    content = (place / "reviews.csv").read_bytes()

    answer = lamatext("train", "-", "--format", "csv", "--out", "run", *SMALL, stdin=content)

    assert answer.status == 0


def test_examples_are_written_as_a_page(lamatext: Command, place: Path) -> None:
    train(lamatext, "--html", "run/examples.html")

    assert "<html" in (place / "run/examples.html").read_text(encoding="utf-8")


def test_baselines_are_listed_in_the_leaderboard(lamatext: Command) -> None:
    answer = lamatext(
        "train",
        "reviews.csv",
        "--out",
        "run",
        "--baselines",
        "tfidf,tfidf-svc,tfidf-chars,avg",
        *SMALL,
    )

    for name in ("TF-IDF + LR", "TF-IDF + SVC", "words and characters", "average embedding"):
        assert name in answer.out


def test_a_finished_model_is_replaced_only_with_force(lamatext: Command, place: Path) -> None:
    train(lamatext)
    before = (place / "run" / "config.json").read_bytes()

    refused = lamatext("train", "reviews.csv", "--out", "run", "--seed", "1", *SMALL)

    assert refused.status == 2
    assert "run: holds a finished model. Replace it with --force, or give --out" in refused.err
    assert (place / "run" / "config.json").read_bytes() == before
    train(lamatext, "--seed", "1", "--force")
    assert json.loads(lamatext("info", "run", "--json").out)["recipe"]["seed"] == 1


@pytest.mark.parametrize("name", ["checkpoint.safetensors", ".checkpoint.safetensors.teacher"])
def test_an_unfinished_run_is_replaced_only_with_force(
    lamatext: Command, place: Path, name: str
) -> None:
    (place / "run").mkdir()
    checkpoint = place / "run" / name
    checkpoint.write_bytes(b"of another run")

    refused = lamatext("train", "reviews.csv", "--out", "run", *SMALL)

    assert refused.status == 2
    assert "run: holds an unfinished run. Continue it with --resume, or start again" in refused.err
    assert checkpoint.read_bytes() == b"of another run"
    train(lamatext, "--force")
    assert not checkpoint.exists()


def test_resume_and_force_exclude_each_other(lamatext: Command) -> None:
    answer = lamatext("train", "reviews.csv", "--out", "run", "--resume", "--force", *SMALL)

    assert answer.status == 2
    assert "give either --resume (continue a run) or --force (replace it), not both" in answer.err


def test_a_finished_run_has_nothing_to_resume(lamatext: Command) -> None:
    train(lamatext)

    answer = lamatext("train", "reviews.csv", "--out", "run", "--resume", *SMALL)

    assert answer.status == 0
    assert "the run is already finished" in answer.err


def test_a_finished_run_of_changed_data_is_another_run(lamatext: Command, place: Path) -> None:
    train(lamatext)
    (place / "copy.csv").write_bytes((place / "reviews.csv").read_bytes())

    same = lamatext("train", "copy.csv", "--out", "run", "--resume", *SMALL)
    write_csv(place / "reviews.csv", 60, seed=5)
    changed = lamatext("train", "reviews.csv", "--out", "run", "--resume", *SMALL)

    assert (same.status, changed.status) == (0, 2)
    assert "the run is already finished" in same.err
    assert "it holds the finished model of another run" in changed.err


@pytest.mark.parametrize("part", ["test", "validation"])
def test_a_finished_run_with_changed_held_out_data_is_another_run(
    part: str, lamatext: Command, place: Path
) -> None:
    options = (f"--{part}", "more.csv")
    write_csv(place / "more.csv", 20, seed=5)
    train(lamatext, *options)
    write_csv(place / "more.csv", 20, seed=6)

    answer = lamatext("train", "reviews.csv", "--out", "run", "--resume", *SMALL, *options)

    assert answer.status == 2
    assert "it holds the finished model of another run" in answer.err


def test_a_run_that_never_got_to_a_checkpoint_starts_again(lamatext: Command, place: Path) -> None:
    (place / "run").mkdir()
    (place / "run" / ".checkpoint.safetensors.123").write_bytes(b"half")

    train(lamatext, "--resume")

    assert not list((place / "run").glob(".*"))


def test_the_seed_of_a_recipe_holds_unless_another_is_given(lamatext: Command, place: Path) -> None:
    (place / "mine.toml").write_text('extends = "default"\nseed = 5\n')

    train(lamatext, "--recipe", "mine.toml")

    assert json.loads(lamatext("info", "run", "--json").out)["recipe"]["seed"] == 5


@pytest.mark.slow
def test_a_label_seen_once_gives_a_warning(place: Path) -> None:
    with (place / "reviews.csv").open("a") as file:
        file.write("an odd film,odd\n")

    done = subprocess.run(
        [sys.executable, "-m", "lamatext", "train", "reviews.csv", "--out", "run", *SMALL],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr.count("seen once") == 1
    assert "1 label seen once counts as errors in the cross-validation: odd." in done.stderr
    assert "UserWarning" not in done.stderr
    assert ESCAPE not in done.stdout + done.stderr


# evaluate


def test_a_model_is_evaluated(lamatext: Command) -> None:
    answer = lamatext("evaluate", "model", "reviews.csv")

    for part in ("accuracy", "macro-F1", "Confusion", "Calibration", "neg", "pos"):
        assert part in answer.out
    assert "lamatext explain model" in answer.err


def test_scores_as_json_can_be_read_by_programs(lamatext: Command) -> None:
    found = json.loads(lamatext("evaluate", "model", "reviews.csv", "--json").out)

    assert found["texts"] == 60
    assert found["accuracy"] > 0.9
    assert [entry["label"] for entry in found["classes"]] == ["neg", "pos"]


def test_labels_are_never_read_as_markup(lamatext: Command, place: Path) -> None:
    labels = ["[red]", "[/nope]", "a very long label " * 9]
    words = [f"{x}{y}" for x in "abcdefgh" for y in "ijklmnop"]
    lines = [f'"film {"xyz"[i % 3]} {words[i]}","{labels[i % 3]}"' for i in range(60)]
    (place / "odd.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    train(lamatext, data="odd.csv")

    answer = lamatext("evaluate", "run", "odd.csv")

    assert answer.status == 0
    for label in labels:
        assert label in answer.out


def test_many_classes_show_their_worst_confusions(lamatext: Command, place: Path) -> None:
    words = [f"{x}{y}" for x in "abcdefghijklm" for y in "nopqrstuvwxyz"]
    lines = [f"film {words[i]} {words[i % 25]},c{i % 25}" for i in range(150)]
    (place / "many.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    train(lamatext, data="many.csv")

    assert "true → predicted" in lamatext("evaluate", "run", "many.csv").out


def test_training_names_its_baselines_and_ends_with_two_examples(lamatext: Command) -> None:
    answer = lamatext("train", "reviews.csv", "--out", "run", *SMALL, "--baselines", "tfidf,avg")
    none = lamatext(
        "train", "reviews.csv", "--out", "other", *SMALL, "--no-examples", "--baselines", "none"
    )

    assert "  baseline TF-IDF + LR: trained in" in answer.err
    assert "  baseline average embedding: trained in" in answer.err
    assert answer.err.count("epoch 1/2") == 1
    lines = answer.out.partition("Test texts with their predictions")[2].splitlines()
    assert [line[:3] for line in lines[1:5:2]] == ["  “"] * 2
    assert all(" %" in line for line in lines[2:5:2])
    assert "Test texts" not in none.out


# explain


def test_the_strongest_words_are_shown_first(lamatext: Command) -> None:
    answer = lamatext("explain", "model", "--text", "a superb film")

    lines = answer.out.splitlines()
    assert lines[0].startswith("pos ")
    assert "superb" in lines[2]
    assert "head" not in answer.out
    assert ESCAPE not in answer.out
    assert "mean of 3 heads" in lamatext("explain", "model", "--text", "a film", "--heads").out


def test_another_label_can_be_explained(lamatext: Command) -> None:
    answer = lamatext("explain", "model", "--text", "a superb film", "--label", "neg", "--quiet")

    assert "Words for (+) and against (−) neg" in answer.out
    assert answer.err == ""


def test_explanations_as_json(lamatext: Command) -> None:
    one = json.loads(lamatext("explain", "model", "--text", "a superb film", "--json").out)
    two = json.loads(lamatext("explain", "model", "--text", "a", "--text", "b", "--json").out)

    assert one["predicted"] == "pos"
    assert len(two) == 2


def test_many_texts_are_explained_as_json_lines(lamatext: Command, place: Path) -> None:
    texts = ["a superb film", "a dull film, dull", ""]
    (place / "new.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))

    answer = lamatext("explain", "model", "new.jsonl", "--out", "why.jsonl")
    printed = lamatext("explain", "model", "new.jsonl", "--quiet")
    numbers = lamatext("explain", "model", "new.jsonl", "--json")

    lines = (place / "why.jsonl").read_text(encoding="utf-8").splitlines()
    first, second, third = map(json.loads, lines)
    assert (first["text"], first["label"]) == (texts[0], "pos")
    assert first["probability"] > 0.5
    assert next(iter(first["for"])) == "superb"
    assert "dull" in second["for"]
    assert third["for"] == third["against"] == {}
    assert printed.out.splitlines() == lines
    assert json.loads(numbers.out.splitlines()[0])["contributions"]
    assert "Explanations of 3 texts written to why.jsonl" in answer.err


def test_many_texts_are_explained_on_a_page(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.cli.explain.MAX_PAGE_TEXTS", 5)

    answer = lamatext("explain", "model", str(place / "reviews.csv"), "--html", "why.html")

    page = (place / "why.html").read_text(encoding="utf-8")
    assert page.count("<article ") == 5
    assert "<title>reviews.csv: the first 5 texts</title>" in page
    assert "It has the first 5 texts" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to explain. Give an INPUT (a file, or - for stdin) or --text."),
        (("reviews.csv", "--text", "a"), "expected one of the two. Give an INPUT"),
        (("reviews.csv", "--out", "why.csv"), "--out why.csv: expected a .jsonl file"),
        (("--text", "a", "--out", "why.jsonl"), "--out why.jsonl: expected a .jsonl file"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    arguments: tuple[str, ...], message: str, lamatext: Command
) -> None:
    answer = lamatext("explain", "model", *arguments)

    assert answer.status == 2
    assert message in answer.err


def test_the_page_escapes_everything(lamatext: Command, place: Path) -> None:
    lamatext("explain", "model", "--text", "<script>alert(1)</script> & film", "--html", "why.html")

    assert "<script>alert" not in (place / "why.html").read_text(encoding="utf-8")


# info, data, and the command itself


def test_info_describes_a_model(lamatext: Command) -> None:
    answer = lamatext("info", "model")

    for part in (
        "lama-ctx, 2 classes",
        "classes: neg, pos\n",
        "embedding",
        "total",
        "made up",
        "accuracy",
        "torch",
    ):
        assert part in answer.out
    assert "(95 % interval " in answer.out
    assert not any(line.rstrip().endswith(":") for line in answer.out.splitlines())
    assert "lamatext predict model" in answer.err


def test_info_as_json(lamatext: Command) -> None:
    found = json.loads(lamatext("info", "model", "--json").out)

    assert found["labels"] == ["neg", "pos"]
    assert found["metrics"]["test"]["texts"] == 20


def test_the_named_data_sets_are_listed(lamatext: Command) -> None:
    answer = lamatext("data")

    assert "rotten-tomatoes" in answer.out
    assert "Origin and license terms" in answer.out
    assert "official split. Free for research, cite Maas et al. 2011." in answer.out
    assert "licence" not in answer.out
    assert "lamatext train rotten-tomatoes" in answer.err
    assert lamatext("data", "--quiet").err == ""


def test_the_named_data_sets_as_json(lamatext: Command) -> None:
    found = json.loads(lamatext("data", "--json").out)

    assert "imdb-train" in {status["entry"]["name"] for status in found}


def test_the_version(lamatext: Command) -> None:
    assert lamatext("--version").out == f"lamatext {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.NAME))
def test_the_help_of_every_command_is_a_manual_page(
    command: ModuleType, lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    answer = lamatext(command.NAME, "--help")

    headings = [line for line in answer.out.splitlines() if line and line[0] != " "]
    assert answer.status == 0
    assert headings[:2] == ["NAME", "SYNOPSIS"]
    assert headings[-1] == "EXAMPLES"
    assert f"    lamatext {command.NAME} - " in answer.out
    assert all(heading == heading.upper() for heading in headings)
    body = answer.out.partition("EXAMPLES")[0]
    assert max(len(line) for line in body.splitlines()) <= 60
    assert ESCAPE not in answer.out


def test_the_help_names_required_options_values_and_defaults(lamatext: Command) -> None:
    page = " ".join(lamatext("train", "--help").out.split())

    assert "SYNOPSIS lamatext train DATA --out DIR [OPTION]..." in page
    assert "--set KEY=VALUE ..." in page
    assert "--baselines NAMES" in page
    assert "[default: tfidf]" in page
    assert "[default: from the recipe, lama-ctx]" in page


def test_without_a_command_the_commands_are_listed(lamatext: Command) -> None:
    answer = lamatext()

    assert "train" in answer.out + answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_output_can_be_plain(
    variable: str, lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1" if variable == "NO_COLOR" else "dumb")

    for arguments in (("info", "model"), ("evaluate", "model", "reviews.csv"), ("data",)):
        answer = lamatext(*arguments)
        assert ESCAPE not in answer.out + answer.err


def test_a_closed_pipe_is_not_an_error(place: Path) -> None:
    (place / "many.txt").write_text("a superb film\n" * 50_000)

    done = subprocess.run(
        f"{sys.executable} -m lamatext predict model many.txt | head -n 2; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("info model >&-", 0, ""),
        ("info model --json >&-", 0, ""),
        ("info model 2>&- >/dev/null", 0, ""),
        ("predict model reviews.csv -q >&-", 0, ""),
        ("predict model - <&-", 0, ""),
        ("evaluate model - <&-", 2, "the file is empty"),
    ],
)
def test_a_closed_standard_stream_is_the_null_device(
    command: str, status: int, message: str, place: Path
) -> None:
    done = subprocess.run(
        f"{sys.executable} -m lamatext {command}",
        cwd=place,
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_classifier_reads_what_the_command_wrote(lamatext: Command, place: Path) -> None:
    train(lamatext)

    assert TextClassifier.load(place / "run").classes_.tolist() == ["neg", "pos"]


@pytest.mark.parametrize("command", [("train", "--out", "run"), ("compare", "--with", "avg")])
def test_scores_on_training_texts_are_said_to_mean_little(
    command: tuple[str, ...], lamatext: Command
) -> None:
    name, *options = command

    seen = lamatext(name, "reviews.csv", "--test", "reviews.csv", *options, *SMALL)

    assert "60 of 60 test texts are duplicates" in seen.out
    assert "the scores mean little" in seen.out
