"""The comparison of models as a page and in the terminal."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from lamatext.views.comparison_display import (
    comparison_page,
    show_comparison,
    write_comparison_page,
)
from tests.test_comparison import made_up_comparison


def test_names_of_models_and_classes_are_escaped_on_the_page() -> None:
    page = comparison_page(made_up_comparison())

    assert "<b>runs/x</b>" not in page
    assert "&lt;b&gt;runs/x&lt;/b&gt;" in page
    assert "&lt;i&gt;sport&lt;/i&gt;" in page
    assert "<script" not in page


def test_the_page_has_the_verdicts_costs_and_kinds_of_texts(tmp_path: Path) -> None:
    write_comparison_page(made_up_comparison(), tmp_path / "page.html")

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in ("lamatext is ahead of TF-IDF + LR", "2.4 MB", "0.31 ms", "Who wins, by length"):
        assert part in page


def test_the_page_says_that_scores_are_from_cross_validation() -> None:
    page = comparison_page(made_up_comparison(folds=5))

    assert "by 5-fold cross-validation on all 600 texts" in page
    assert "learned from the same texts of each fold and predicted" in page


def test_the_terminal_shows_the_best_model_first_and_who_wins_where() -> None:
    console = Console(file=StringIO(), width=200)

    show_comparison(console, made_up_comparison())

    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0].split()[:3] == ["model", "accuracy", "minus"]
    assert [line.split()[0] for line in lines[1:4]] == ["lamatext", "<b>runs/x</b>", "TF-IDF"]
    assert any("tie of lamatext, <b>runs/x</b>" in line for line in lines)
