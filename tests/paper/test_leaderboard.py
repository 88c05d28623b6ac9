from pathlib import Path

from paper.board import SETS, Board
from paper.leaderboard import EXPERIMENT, METRICS, OURS, recipe_for, run_baseline
from paper.leaderboard_page import accuracy_table, verdict, write_page
from paper.pool import Job, name_of
from paper.readme import fill
from paper.records import Record, Results


def records(model: str, accuracies: dict[str, list[float]]) -> list[Record]:
    return [
        Record(EXPERIMENT, dataset, model, metric, value, seed, device="cpu")
        for dataset, values in accuracies.items()
        for seed, value in enumerate(values)
        for metric in METRICS
    ]


def costs(model: str, dataset: str, *, size: float, latency: float) -> list[Record]:
    found = {"bytes": size, "latency_ms": latency, "texts_per_second": 10.0, "seconds": 70.0}
    return [
        Record("costs", dataset, model, metric, value, device="A processor, 2 cores")
        for metric, value in found.items()
    ]


def minilm(accuracy: float) -> list[Record]:
    """As the paper's protocol records it."""
    return [
        Record(
            "accuracy", dataset, "bert", metric, accuracy, 0, seconds=33.0,
            device="NVIDIA H200, TF32", config={"model.pretrained": "minilm"},
        )
        for dataset in SETS
        for metric in ("accuracy", "macro_f1", "calibration_error", "valid_accuracy")
    ]  # fmt: skip


def board() -> Board:
    ours = {name: [0.9, 0.8] for name in SETS}
    theirs = {name: [0.7] for name in SETS} | {"r8": [0.95]}
    return Board([*records("default", ours), *records("tfidf", theirs)])


def test_the_table_has_means_over_seeds_with_the_best_in_bold() -> None:
    lines = accuracy_table(board()).splitlines()

    assert lines[2].count("**0.8500**") == len(SETS) - 1
    assert "**0.9500**" in lines[3]


def test_the_verdict_says_where_something_else_wins() -> None:
    said = verdict(board())

    assert "most accurate on imdb, news, clothing, mr" in said
    assert "TF-IDF (1,2) + logistic regression on r8 (0.9500 against 0.8500" in said


def test_the_verdict_tells_a_lead_within_the_spread_of_the_seeds() -> None:
    near = {name: [0.9, 0.8] for name in SETS}, {name: [0.86] for name in SETS}

    said = verdict(Board([*records("default", near[0]), *records("tfidf", near[1])]))

    assert "on mr (0.8600 against 0.8500, within the spread of the seeds" in said


def test_the_page_is_made_from_the_records_alone(tmp_path: Path) -> None:
    Results(tmp_path).add(records("default", {name: [0.5, 0.7] for name in SETS}))

    write_page(tmp_path)

    page = (tmp_path / "leaderboard.md").read_text()
    assert "0.6000 ± 0.1414" in page
    assert "TF-IDF" not in page
    assert "## Costs" not in page
    assert "## What each part brings" not in page


def test_other_data_has_a_table_and_a_verdict_of_its_own(tmp_path: Path) -> None:
    ours = {**{name: [0.8] for name in SETS}, "r52": [0.9], "topics": [0.5]}
    Results(tmp_path).add([*records("default", ours), *records("tfidf", {"topics": [0.7]})])

    write_page(tmp_path)

    _, _, others = (tmp_path / "leaderboard.md").read_text().partition("## On other data")
    assert "| test accuracy | r52 | topics |" in others
    assert "| **lamatext**, default recipe | **0.9000** | 0.5000 |" in others
    assert "most accurate on r52. Something else wins elsewhere: TF-IDF" in others
    _, _, topics = others.partition("## topics")
    assert "| TF-IDF (1,2) + logistic regression | 0.7000 |" in topics


def test_a_set_in_a_folder_is_recorded_by_its_name(tmp_path: Path) -> None:
    results, folder = Results(tmp_path), tmp_path / "sets" / "r52"
    folder.mkdir(parents=True)
    results.add([Record(EXPERIMENT, "r52", "tfidf", "accuracy", 0.5, None)])

    run_baseline(results, str(folder), "tfidf")

    assert len(results.of(EXPERIMENT)) == 1
    assert Job(str(folder), "tfidf").folder == "r52-tfidf-None"
    assert name_of("hf:someone/r52") == "hf:someone/r52"


def test_a_pretrained_winner_is_named_with_its_price(tmp_path: Path) -> None:
    Results(tmp_path).add(
        [
            *records("default", {name: [0.8] for name in SETS}),
            *minilm(0.9),
            *costs("default", "mr", size=2.7e6, latency=0.75),
            *costs("minilm", "mr", size=90.7e6, latency=85.1)[:2],
        ]
    )

    write_page(tmp_path)

    page = (tmp_path / "leaderboard.md").read_text()
    assert "learn from the training texts alone it is the most accurate on r8, imdb" in page
    assert (
        "on mr (0.9000 against 0.8000, 90.7 MB against 2.7 MB, 85.1 ms against 0.75 ms a text)"
        in page
    )
    assert "one model at a time on A processor, 2 cores, by" in page
    rows = [line for line in page.splitlines() if line.startswith("| fine-tuned MiniLM")]
    assert rows[-1].endswith("| 0.9000 | 90.7 MB | – | 85.1 ms | 33 s, NVIDIA H200 |")
    assert "| 2.7 MB | 10 | 0.75 ms | 70 s, CPU |" in page


def test_the_costs_of_a_leaderboard_run_are_not_shown(tmp_path: Path) -> None:
    Results(tmp_path).add(records("default", {name: [0.5] for name in SETS}))

    write_page(tmp_path)

    assert (
        "| 0.5000 | 0.5000 | 0.5000 | – | – | – | – |" in (tmp_path / "leaderboard.md").read_text()
    )


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n")

    fill(readme, "x", "new")

    assert readme.read_text() == "a\n<!-- begin: x -->\nnew\n<!-- end: x -->\nb\n"


def test_each_row_of_ours_has_a_recipe_with_its_seed() -> None:
    for model in OURS:
        assert recipe_for(model, 7).seed == 7
    assert recipe_for("default", 0).ngrams.enabled
    assert not recipe_for("lama-ctx", 0).ngrams.enabled


def test_a_baseline_that_has_a_record_is_not_trained_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add([Record(EXPERIMENT, "no-such-set", "tfidf", "accuracy", 0.5, None)])

    run_baseline(results, "no-such-set", "tfidf")

    assert len(results.of(EXPERIMENT)) == 1
