from pathlib import Path

from lamatext.reproduce.leaderboard import EXPERIMENT, METRICS, OURS, recipe_for, run_rival
from lamatext.reproduce.leaderboard_page import (
    SETS,
    Board,
    accuracy_table,
    verdict,
    write_page,
)
from lamatext.reproduce.readme import fill
from lamatext.reproduce.records import Record, Results


def records(model: str, accuracies: dict[str, list[float]]) -> list[Record]:
    return [
        Record(EXPERIMENT, dataset, model, metric, value, seed, device="cpu")
        for dataset, values in accuracies.items()
        for seed, value in enumerate(values)
        for metric in METRICS
    ]


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
    assert "TF-IDF (1,2) + logistic regression on r8" in said


def test_the_page_is_made_from_the_records_alone(tmp_path: Path) -> None:
    Results(tmp_path).add(records("default", {name: [0.5, 0.7] for name in SETS}))

    write_page(tmp_path)

    page = (tmp_path / "leaderboard.md").read_text()
    assert "0.6000 ± 0.1414" in page
    assert "TF-IDF" not in page


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n")

    fill(readme, "x", "new")

    assert readme.read_text() == "a\n<!-- begin: x -->\nnew\n<!-- end: x -->\nb\n"


def test_each_row_of_ours_has_a_recipe_with_its_seed() -> None:
    for model in OURS:
        assert recipe_for(model, 7).seed == 7
    assert recipe_for("default", 0).wide.use
    assert not recipe_for("lama-ctx", 0).wide.use


def test_a_rival_that_has_a_record_is_not_trained_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add([Record(EXPERIMENT, "no-such-set", "tfidf", "accuracy", 0.5, None)])

    run_rival(results, "no-such-set", "tfidf")

    assert len(results.of(EXPERIMENT)) == 1
