"""What the ablation of the default recipe says, in tables and words."""

from pathlib import Path

from paper.board import SETS
from paper.recipe_page import (
    TITLES,
    change_table,
    conclusion,
    differences,
    read_values,
    recipe_section,
)
from paper.recipe_parts import ADDED, EXPERIMENT, WHOLE
from paper.records import Record, Results

POOLING, WORDS = "without max-pooling", "without dropout of words"
KEPT = "without a temperature"


def made(folder: Path, accuracies: dict[str, list[float]], *, log_loss: float = 0.5) -> Results:
    """Values for each seed on one set; a change's log-loss and bytes differ by its name alone."""
    results = Results(folder)
    results.add(
        Record(EXPERIMENT, "mr", change, metric, value, seed)
        for change, values in accuracies.items()
        for seed, accuracy in enumerate(values)
        for metric, value in (
            ("accuracy", accuracy),
            ("log_loss", 0.5 if change == WHOLE else log_loss),
            ("bytes", 9e6 if change == "stored in float32" else 3e6),
        )
    )
    return results


def test_nothing_is_said_where_nothing_was_measured(tmp_path: Path) -> None:
    assert not list(recipe_section(Results(tmp_path)))


def test_a_cell_is_the_mean_difference_of_the_same_seed_and_its_spread(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.80, 0.90], POOLING: [0.79, 0.87]}))

    lines = change_table(values, "accuracy", "accuracy").splitlines()

    assert lines[2] == f"| {TITLES[WHOLE]} | – | – | – | – | 0.8500 |"
    assert f"| {POOLING} | – | – | – | – | −2.00 ± 1.41 |" in lines
    assert len(lines) == 4


def test_a_seed_that_only_one_side_has_does_not_count(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.80], POOLING: [0.79, 0.50]}))

    assert len(differences(values, POOLING, "mr", "accuracy")) == 1


def test_a_part_without_which_the_log_loss_falls_is_named(tmp_path: Path) -> None:
    accuracies = {WHOLE: [0.8, 0.8], KEPT: [0.8, 0.8], WORDS: [0.8, 0.8]}

    better = conclusion(read_values(made(tmp_path / "better", accuracies, log_loss=0.4)))
    worse = conclusion(read_values(made(tmp_path / "worse", accuracies, log_loss=0.6)))

    nothing = "lowers the log-loss (−0.1000): that part brought nothing and"
    assert f"“{WORDS}” {nothing} has been taken out of the recipe since." in better
    assert f"“{KEPT}” {nothing} is kept for now." in better
    assert "costs most: +0.1000" in worse
    assert "brought nothing" not in worse


def test_what_the_recipe_does_not_have_is_no_part_of_it(tmp_path: Path) -> None:
    accuracies = {WHOLE: [0.8], ADDED[0]: [0.9], POOLING: [0.8]}

    said = conclusion(read_values(made(tmp_path, accuracies, log_loss=0.4)))

    assert POOLING in said
    assert ADDED[0] not in said


def test_other_data_has_a_column_where_it_was_tried(tmp_path: Path) -> None:
    results = made(tmp_path, {WHOLE: [0.8]})
    results.add([Record(EXPERIMENT, "r52", WHOLE, "accuracy", 0.9, 0)])

    lines = change_table(read_values(results), "accuracy", "accuracy").splitlines()

    assert lines[0] == f"| accuracy | {' | '.join(SETS)} | r52 |"
    assert lines[2].endswith("| 0.8000 | 0.9000 |")


def test_storage_is_told_by_its_size(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.80, 0.80], "stored in float32": [0.80, 0.79]}))

    assert "by −0.50 points on average, and the size from 3.0 to 9.0 MB." in conclusion(values)


def test_the_section_has_both_tables(tmp_path: Path) -> None:
    text = "\n".join(recipe_section(made(tmp_path, {WHOLE: [0.8], WORDS: [0.7]})))

    assert "accuracy, change in points" in text
    assert "log-loss, change" in text
    assert all(name in text for name in SETS)
