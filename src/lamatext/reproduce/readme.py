"""The tables of the project's README, from the records: ``python -m lamatext.reproduce.readme``."""

from pathlib import Path

from lamatext.files import write_text
from lamatext.reproduce.accuracy_tables import best_on_validation
from lamatext.reproduce.board import Board, read_board
from lamatext.reproduce.leaderboard_page import (
    accuracy_table,
    costs_note,
    costs_table,
    verdict,
    write_page,
)
from lamatext.reproduce.published import accuracy as published
from lamatext.reproduce.records import Results
from lamatext.reproduce.tables import heading, markdown, share, title

SETS = ("r8", "imdb", "clothing-long")
SYSTEMS = ("lama-ctx", "lama", "san", "bigru", "cnn", "te", "avg", "lama-encoder")


def leaderboard_block(board: Board) -> str:
    """How the default recipe stands beside what a user would pick instead."""
    costs = [costs_table(board)] if costs_note(board) else []
    return "\n\n".join(
        [
            "## How good is it",
            accuracy_table(board),
            f"{verdict(board)} Means over seeds; everything was chosen on validation data.",
            *costs,
            "[results/leaderboard.md](results/leaderboard.md) has all figures of each set, from "
            "macro-F1 to calibration, and the commands.",
        ]
    )


def paper_block(results: Results) -> str:
    """The paper's systems by its protocol, ours beside the published values."""
    rows = [
        [title(system), *(_beside(results, dataset, system) for dataset in SETS)]
        for system in SYSTEMS
    ]
    return "\n".join(
        [
            "## The paper, computed again",
            "",
            "Test accuracy of the seed that is best on validation, and after the stroke the "
            "published value; `clothing-long` stands in for Yelp-L and is not like for like. "
            "`lamatext reproduce NAME` computes any table or figure; "
            "[results/README.md](results/README.md) has all of them, with what they show in words.",
            "",
            markdown(["ours / paper", *map(heading, SETS)], rows),
            "",
            "![Validation accuracy over epochs by number of heads](results/figures/heads.png)",
            "",
            "![Accuracy against parameters](results/figures/params-vs-accuracy.png)",
        ]
    )


def fill(readme: Path, name: str, text: str) -> None:
    """Put ``text`` between the marks of that name."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = readme.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    write_text(readme, f"{before}{begin}\n{text}\n{end}{after}")


def _beside(results: Results, dataset: str, system: str) -> str:
    ours = best_on_validation(results, dataset, system)
    return f"{share(ours)} / {share(published(system, dataset))}"


def main() -> None:
    """Write the leaderboard's page and both blocks of the README."""
    folder = Path("results")
    write_page(folder)
    fill(Path("README.md"), "leaderboard", leaderboard_block(read_board(folder)))
    fill(Path("README.md"), "paper", paper_block(Results(folder)))


if __name__ == "__main__":
    main()
