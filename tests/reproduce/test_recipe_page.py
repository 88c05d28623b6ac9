"""What the ablation of the default recipe says, in tables and words."""

from pathlib import Path

from lamatext.reproduce.board import SETS
from lamatext.reproduce.recipe_page import (
    change_table,
    conclusion,
    differences,
    harmed,
    read_values,
    recipe_section,
)
from lamatext.reproduce.recipe_parts import CHANGES, EXPERIMENT, WHOLE
from lamatext.reproduce.records import Record, Results

POOLING, WORDS = "without max-pooling", "without dropout of words"


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

    assert lines[2] == f"| {WHOLE} | – | – | – | – | 0.8500 |"
    assert f"| {POOLING} | – | – | – | – | −2.00 ± 1.41 |" in lines
    assert len(lines) == 2 + len(CHANGES)


def test_a_seed_that_only_one_side_has_does_not_count(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.80], POOLING: [0.79, 0.50]}))

    assert len(differences(values, POOLING, "mr", "accuracy")) == 1


def test_a_part_without_which_no_set_gets_worse_is_named(tmp_path: Path) -> None:
    accuracies = {WHOLE: [0.80, 0.81], POOLING: [0.70, 0.71], WORDS: [0.81, 0.80]}
    values = read_values(made(tmp_path, accuracies))

    assert harmed(values, POOLING) == ["mr"]
    assert harmed(values, WORDS) == []
    assert conclusion(values).endswith(f"brings nothing: {WORDS}.")


def test_a_change_of_about_the_spread_is_no_harm(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.80, 0.80], POOLING: [0.79, 0.77]}))

    assert harmed(values, POOLING) == []  # −0.02 ± 0.014


def test_a_worse_log_loss_is_harm_too(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.8, 0.8], WORDS: [0.8, 0.8]}, log_loss=0.6))

    assert harmed(values, WORDS) == ["mr"]
    assert "every part brings something" in conclusion(values)


def test_storage_is_told_by_its_size(tmp_path: Path) -> None:
    values = read_values(made(tmp_path, {WHOLE: [0.80, 0.80], "stored in float32": [0.80, 0.79]}))

    assert "by −0.50 points on average, and the size from 3.0 to 9.0 MB." in conclusion(values)


def test_the_section_has_both_tables(tmp_path: Path) -> None:
    text = "\n".join(recipe_section(made(tmp_path, {WHOLE: [0.8], WORDS: [0.7]})))

    assert "accuracy, change in points" in text
    assert "log-loss, change" in text
    assert all(name in text for name in SETS)
