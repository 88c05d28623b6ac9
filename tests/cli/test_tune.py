"""lamatext tune: a search under limits that can be continued."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lamatext import Predictor, tuning
from lamatext.runtime import ray_engine
from lamatext.saved.format import folder_size, load_config, saved_recipe
from lamatext.trials import RUNNING, Trial
from tests.cli.conftest import Command
from tests.corpora import TINY, write_csv, write_topics

pytest.importorskip("optuna")
needs_ray = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("ray") is None, reason="needs the extra ray"
)

FIXED = {**TINY, "training.epochs": 1, "model.name": "avg", "model.classifier_width": 0}
SETTINGS = [
    f"--set={k}={v}"
    for k, v in FIXED.items()
    if k not in ("ngrams.enabled", "model.heads", "model.hidden_size")
]
ON_RAY = ("--engine", "ray")
SEARCH = ("tune", "reviews.csv", "--time", "90s", "--out", "tuned", *SETTINGS)


@pytest.fixture
def _five_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each search after five trials more, however fast this machine is."""
    estimate, before = tuning.final_seconds, dict[float, int]()  # by the start of the search

    def ended(task: tuning.TuningTask, trials: list[Trial]) -> float:
        count = sum(trial.state != RUNNING for trial in trials)
        is_over = count >= before.setdefault(task.started, count) + 5
        return 1e9 if is_over else estimate(task, trials)

    monkeypatch.setattr("lamatext.tuning.final_seconds", ended)


@pytest.mark.usefixtures("_five_trials")
def test_the_search_saves_a_model_its_page_and_its_study(lamatext: Command, place: Path) -> None:
    write_csv(place / "reviews.csv", 200)

    answer = lamatext(*SEARCH)

    assert answer.status == 0, answer.err
    assert Predictor.load(place / "tuned" / "model").predict(["a moving film"])[0] in ("neg", "pos")
    assert (place / "tuned" / "study.sqlite3").is_file()
    assert "Pareto front" in (place / "tuned" / "tuning.html").read_text()
    data, search, *_ = answer.err.split("\n\n")
    assert data.startswith(
        "Data\n  reviews.csv: texts from column 'text', labels from column 'label'"
    )
    assert "160 training texts, 20 validation texts, 20 test texts" in data
    title, *trials = search.splitlines()
    assert title == "Search"
    assert [line.split(":")[0] for line in trials] == [f"  trial {number}" for number in range(5)]
    assert "default recipe, seed 2" in trials[2]
    assert "dropout=" in trials[4]
    assert "vector_width=" not in answer.err  # fixed with --set
    recipe = saved_recipe(place / "tuned/model", load_config(place / "tuned/model"))
    assert recipe.text.vector_width == 8
    assert "(chosen)" in answer.out
    assert "Trained on all texts but the test texts: accuracy" in answer.out
    assert re.search("default recipe|search brought", answer.out)
    assert "lamatext predict tuned/model --text" in answer.err


@pytest.mark.usefixtures("_five_trials")
def test_the_same_command_continues_the_study_and_other_data_are_an_error(
    lamatext: Command, place: Path
) -> None:
    write_csv(place / "reviews.csv", 200)
    write_csv(place / "others.csv", 200, seed=9)
    first = lamatext(*SEARCH)
    saved = (place / "tuned" / "model" / "config.json").read_bytes()

    other = lamatext("tune", "others.csv", *SEARCH[2:])
    macro = lamatext(*SEARCH, "--metric", "macro-f1")
    again = lamatext(*SEARCH)

    assert first.status == again.status == 0
    assert other.status == macro.status == 2
    assert "study.sqlite3: holds a study of other data than this search of others.csv" in other.err
    assert "holds a study of another metric" in macro.err
    assert "trial 9: " in again.err
    assert (place / "tuned" / "model" / "config.json").read_bytes() != saved  # the time differs


@pytest.mark.usefixtures("_five_trials")
def test_a_limit_that_no_model_meets_is_an_error_that_names_the_smallest(
    lamatext: Command, place: Path
) -> None:
    write_csv(place / "reviews.csv", 200)

    answer = lamatext(*SEARCH, "--max-size", "1kB", "--max-latency", "1us")

    assert answer.status == 2
    assert "no model is within the limits (a size of 0.001 MB and 0.001 ms per text)" in answer.err
    assert re.search(r"The smallest of \d trials? takes 0\.\d+ MB", answer.err)
    assert (place / "tuned" / "study.sqlite3").is_file()
    assert not (place / "tuned" / "model").exists()


@pytest.mark.usefixtures("_five_trials")
def test_a_final_model_over_a_limit_is_replaced_by_the_model_of_the_trial(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(place / "reviews.csv", 200)
    measure, calls = tuning._measure_saved, list[Path]()

    def larger_at_first(folder: Path, task: tuning.TuningTask) -> tuple[int, float]:
        calls.append(folder)
        size, latency = measure(folder, task)
        return (size + 10**9 if len(calls) == 1 else size), latency

    monkeypatch.setattr("lamatext.tuning._measure_saved", larger_at_first)

    answer = lamatext(*SEARCH, "--max-size", "5MB")

    assert answer.status == 0, answer.err
    assert "the model trained on all texts was over a limit" in answer.out
    assert folder_size(place / "tuned" / "model") < 5e6


@pytest.mark.usefixtures("_five_trials")
def test_several_labels_are_searched_by_macro_f1(lamatext: Command, place: Path) -> None:
    write_topics(place / "topics.jsonl", 200)

    answer = lamatext("tune", "topics.jsonl", *SEARCH[2:])
    accuracy = lamatext("tune", "topics.jsonl", *SEARCH[2:], "--metric", "accuracy")

    assert answer.status == 0, answer.err
    assert "validation macro-F1" in answer.out
    assert accuracy.status == 2
    assert "Choose micro-f1 or macro-f1." in accuracy.err


def test_ctrl_c_keeps_the_study(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lamatext.tuning._run_trial", interrupt)
    monkeypatch.setattr("sys.argv", ["lamatext", *SEARCH])

    answer = lamatext(*SEARCH)

    assert answer.status == 130
    assert "the study with 0 trials is kept in tuned. Continue it" in answer.err
    assert answer.err.rstrip().endswith("lamatext " + " ".join(SEARCH))
    assert (place / "tuned" / "study.sqlite3").is_file()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("/proc/study", "lamatext: /proc/study: cannot be written: "),
        ("reviews.csv", "lamatext: reviews.csv: is a file. Give --out a folder."),
    ],
)
def test_a_folder_that_cannot_be_written_is_an_error_before_the_data_is_read(
    lamatext: Command, out: str, message: str
) -> None:
    answer = lamatext("tune", "missing.csv", "--out", out)

    assert answer.status == 2
    assert answer.err.startswith(message)


def test_ctrl_c_before_the_search_is_one_sentence(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lamatext.pipeline.load_dataset", interrupt)

    answer = lamatext(*SEARCH)

    assert answer.status == 130
    assert "lamatext: interrupted; the search had not begun. Run it again with:" in answer.err
    assert not (place / "tuned").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--time", "10", "--time 10: expected a number above 0 with a unit (s, m, min, h)"),
        ("--max-size", "5 apples", "--max-size 5 apples: expected a number above 0 with a unit"),
        ("--max-latency", "0ms", "--max-latency 0ms: expected a number above 0"),
        ("--metric", "f1", "--metric f1: unknown. Known: accuracy, micro-f1, macro-f1."),
    ],
)
def test_a_wrong_limit_is_an_error(
    lamatext: Command, option: str, value: str, message: str
) -> None:
    answer = lamatext("tune", "reviews.csv", option, value)

    assert answer.status == 2
    assert message in answer.err


def test_without_optuna_the_error_names_the_pip_command(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)

    answer = lamatext(*SEARCH)

    assert answer.status == 2
    assert "pip install 'lamatext[tune]'" in answer.err


def processes_with_a_trial(study: Path) -> set[str]:
    """Return the processes that have finished a trial of a study, as the study names them."""
    query = "select value_json from trial_user_attributes where key = 'process'"
    try:
        with sqlite3.connect(f"file:{study}?mode=ro", uri=True) as connection:
            return {name for (name,) in connection.execute(query)}
    except sqlite3.OperationalError:  # not there yet, or being written
        return set()


@pytest.mark.slow
def test_two_processes_share_a_study_until_it_is_interrupted(place: Path) -> None:
    write_csv(place / "reviews.csv", 200)
    command = [sys.executable, "-m", "lamatext", *SEARCH, "--jobs", "2", "--time", "5m"]

    def heed_interrupts() -> None:  # which a test run in the background ignores
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as search:
        shared, ends = set[str](), time.monotonic() + 250  # however busy the machine is
        while len(shared) < 2 and search.poll() is None and time.monotonic() < ends:
            time.sleep(0.5)
            shared = processes_with_a_trial(place / "tuned" / "study.sqlite3")
        search.send_signal(signal.SIGINT)
        _, messages = search.communicate(timeout=60)

    assert len(shared) == 2, messages
    assert search.returncode == 130, messages
    assert processes_with_a_trial(place / "tuned" / "study.sqlite3") >= shared


@pytest.mark.slow
def test_a_search_with_its_final_training_ends_in_time(lamatext: Command, place: Path) -> None:
    write_csv(place / "reviews.csv", 200)

    started = time.monotonic()
    answer = lamatext(*SEARCH, "--time", "30s")
    seconds = time.monotonic() - started

    if "no trial was finished in the time" in answer.err or (
        seconds >= 33 and os.getloadavg()[0] > 2 * len(os.sched_getaffinity(0))
    ):
        pytest.skip("the machine is too busy for a search of 30 seconds")
    assert answer.status == 0, answer.err
    assert 15 < seconds < 33  # the time is used, and exceeded by a tenth at most
    assert (place / "tuned" / "model" / "config.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "spark"), "--engine spark: unknown. Use local or ray."),
        (("--address", "auto"), "--address needs --engine ray."),
        (("--jobs", "65"), "--jobs 65: at most 64 processes run on one machine."),
        pytest.param(
            (*ON_RAY, "--device", "cuda"), "trains trials on processor cores", marks=needs_ray
        ),
        pytest.param((*ON_RAY, "--address", "here"), "expected HOST:PORT", marks=needs_ray),
    ],
)
def test_options_that_do_not_fit_are_named_before_the_study_is_created(
    lamatext: Command, place: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_csv(place / "reviews.csv", 200)

    answer = lamatext(*SEARCH, *arguments)

    assert answer.status == 2
    assert message in answer.err
    assert not (place / "tuned").exists()


@needs_ray
def test_an_address_without_answer_is_named(
    lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(place / "reviews.csv", 200)
    monkeypatch.setattr(ray_engine, "CONNECT_SECONDS", 1.0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"

        answer = lamatext(*SEARCH, *ON_RAY, "--address", address)

    assert answer.status == 2
    assert f"--address {address}: no answer within 1 s" in answer.err
    assert not (place / "tuned").exists()


@needs_ray
@pytest.mark.slow
@pytest.mark.usefixtures("_five_trials")
def test_two_ray_workers_run_the_trials_of_one_study(lamatext: Command, place: Path) -> None:
    write_csv(place / "reviews.csv", 200)

    answer = lamatext(*SEARCH, "--time", "300s", *ON_RAY, "--jobs", "2")

    assert answer.status == 0, answer.err
    assert Predictor.load(place / "tuned" / "model").predict(["a moving film"])[0] in ("neg", "pos")
    with sqlite3.connect(place / "tuned" / "study.sqlite3") as study:
        trials = study.execute(
            "select number, state, datetime_start, datetime_complete from trials"
        )
        rows = trials.fetchall()
    finished = [row for row in rows if row[1] in ("COMPLETE", "PRUNED")]
    assert len(finished) >= 3
    assert rows[1][2] < rows[0][3]  # the second trial started before the first one was finished
