import io
from dataclasses import replace

import numpy as np
from rich.console import Console

from lamatext.baselines import LeaderboardRow
from lamatext.explain.faithfulness import compare_orders
from lamatext.metrics import multi_label_score, score
from lamatext.views.terminal_scores import show_faithfulness, show_leaderboard, show_scores

OWN = LeaderboardRow("lama-ctx", 0.95, 0.9, 0.02, 2_900_000, 2146.0, 109.0)
TFIDF = LeaderboardRow("TF-IDF + LR", 0.96, 0.7, 0.05, 700_000, 14896.0, 1.0)


def console() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=1000), file


def test_the_leaderboard_is_sorted_and_its_summary_mentions_chance() -> None:
    terminal, file = console()

    show_leaderboard(terminal, [OWN, TFIDF], texts=100)

    lines = file.getvalue().splitlines()
    assert lines[1].startswith("TF-IDF + LR")
    assert "2.9 MB" in lines[2]
    assert lines[3].startswith("TF-IDF + LR is ahead of lama-ctx by 1.0 points; with 100 texts")


def test_a_narrow_leaderboard_has_all_columns_in_two_tables() -> None:
    file = io.StringIO()

    show_leaderboard(Console(file=file, width=60), [OWN, TFIDF], texts=100)

    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert lines[0].split() == ["model", "accuracy", "95", "%", "interval", "macro-F1"]
    assert lines[1].startswith("TF-IDF + LR ")
    assert lines[2].startswith("lama-ctx ")
    assert lines[3] == ""
    assert lines[4].split() == ["model", "size", "texts/s", "training"]
    assert lines[5].split()[-4:] == ["MB", "14,896", "1.0", "s"]
    assert lines[6].split() == ["lama-ctx", "2.9", "MB", "2,146", "109", "s"]


def test_without_baselines_the_summary_is_the_accuracy() -> None:
    terminal, file = console()

    show_leaderboard(terminal, [OWN], texts=100)

    assert "lama-ctx labels 95.0 % of 100 test texts correctly." in file.getvalue()


def test_with_several_labels_the_summary_compares_micro_f1() -> None:
    def summary(own: float, other: float) -> str:
        terminal, file = console()
        rows = [replace(OWN, micro_f1=own), replace(TFIDF, micro_f1=other)]
        rows = [
            replace(
                row, mean_average_precision=0.9, hamming_loss=0.01, micro_f1_interval=(0.8, 1.0)
            )
            for row in rows
        ]
        show_leaderboard(terminal, rows, texts=100)
        return file.getvalue()

    same = "lama-ctx and TF-IDF + LR have the same micro-F1 (0.900) on 100 test texts."
    assert same in summary(0.9001, 0.9)
    ahead = (
        "TF-IDF + LR is ahead of lama-ctx in micro-F1 on 100 test texts: 0.950, compared with 0.9"
    )
    assert ahead in (summary(0.9, 0.95))


def test_few_classes_are_shown_as_a_confusion_matrix_and_many_as_pairs() -> None:
    for classes, expected in ((3, "Confusion matrix: rows"), (21, "confusions of 21 classes")):
        terminal, file = console()
        truth = np.arange(42) % classes
        probabilities = np.random.default_rng(0).dirichlet(np.ones(classes), 42)

        show_scores(terminal, score(range(classes), truth, probabilities), 100.0)

        assert expected in file.getvalue()
        assert "42 texts, 100 texts/s" in file.getvalue()


def test_the_calibration_of_several_labels_counts_decisions() -> None:
    draw = np.random.default_rng(0)
    probabilities = draw.random((50, 4))
    truth = draw.random((50, 4)) < probabilities
    terminal, file = console()

    scores = multi_label_score(list("abcd"), truth, probabilities, probabilities > 0.5)
    show_scores(terminal, scores, 100.0)

    head, *rows = file.getvalue().partition("Calibration")[2].splitlines()[1:]
    assert head.split() == ["probability", "accuracy", "95", "%", "interval", "decisions"]
    assert sum(int(row.split()[-1]) for row in rows) == 200


def test_faithfulness_is_a_table_of_rankings_and_a_verdict() -> None:
    terminal, file = console()
    texts = [np.arange(2, 12, dtype=np.int32)] * 3
    scores = {"contribution": [np.arange(10.0)] * 3}
    measured = compare_orders(texts, scores, lambda batch: np.full((len(batch), 2), 0.5))

    show_faithfulness(terminal, measured)

    lines = file.getvalue().splitlines()
    assert "Faithfulness of the explanations on 3 texts" in lines[1]
    assert lines[2].split("  ")[-1].strip() == "only 50 %"
    assert lines[3].startswith("contribution     0.00 (0.00 to 0.00)")
    assert lines[-1] == measured.verdict()


def test_the_accuracy_on_all_texts_has_one_interval() -> None:
    draw = np.random.default_rng(0)
    probabilities = draw.dirichlet([1, 1], 200)
    scores = score(["a", "b"], draw.integers(0, 2, 200), probabilities)
    terminal, file = console()

    show_scores(terminal, scores, 100.0)

    rows = file.getvalue().split("Accuracy over coverage", 1)[1].splitlines()[2:]
    assert len(rows) == 9
    assert all(not row.startswith("100.0 %") for row in rows)


def test_without_different_probabilities_there_is_no_coverage_to_show() -> None:
    terminal, file = console()

    show_scores(terminal, score(["a", "b"], np.array([0, 1]), np.full((2, 2), 0.5)), 100.0)

    assert "Accuracy over coverage" not in file.getvalue()
