"""The tables of the project's README, from the records: ``python -m paper.readme``."""

from pathlib import Path

from lamatext.atomic_write import write_text
from paper.board import Board, read_board
from paper.leaderboard_page import (
    accuracy_table,
    costs_note,
    costs_table,
    others_of,
    verdict,
    write_page,
)
from paper.paper_block import paper_block
from paper.records import Results


def leaderboard_block(board: Board) -> str:
    """How the default recipe stands beside what a user would pick instead."""
    costs = [costs_table(board)] if costs_note(board) else []
    others = others_of(board)
    elsewhere = [
        "On sets that it was not made on, but for one rule (results/leaderboard.md says which): "
        "Reuters in 52 classes, 20 newsgroups, tweets by author, Slovene comments by topic.",
        accuracy_table(board, others),
        verdict(board, others),
    ]
    return "\n\n".join(
        [
            "## How good is it",
            accuracy_table(board),
            f"{verdict(board)} Means over seeds; everything was chosen on validation data.",
            *(elsewhere if others else []),
            *costs,
            "[results/leaderboard.md](results/leaderboard.md) has all figures of each set, from "
            "macro-F1 to calibration, and the commands.",
        ]
    )


def fill(readme: Path, name: str, text: str) -> None:
    """Put ``text`` between the marks of that name."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = readme.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    write_text(readme, f"{before}{begin}\n{text}\n{end}{after}")


def main() -> None:
    """Write the leaderboard's page and both blocks of the README."""
    folder = Path("results")
    write_page(folder)
    fill(Path("README.md"), "leaderboard", leaderboard_block(read_board(folder)))
    fill(Path("README.md"), "paper", paper_block(Results(folder)))


if __name__ == "__main__":
    main()
