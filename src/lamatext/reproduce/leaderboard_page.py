"""The leaderboard in Markdown, from ``results/leaderboard.json`` alone."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

from lamatext.files import write_text
from lamatext.reproduce.leaderboard import EXPERIMENT, METRICS
from lamatext.reproduce.records import Record, Results

SETS = ("r8", "imdb", "news", "clothing", "mr")
TITLES = {
    "default": "**lamatext**, default recipe",
    "lama-ctx": "LAMA+ctx, the paper's recipe",
    "tfidf": "TF-IDF (1,2) + logistic regression",
    "tfidf-svc": "TF-IDF (1,2) + LinearSVC",
    "tfidf-chars": "TF-IDF words and characters + LinearSVC",
    "fasttext": "fastText",
    "fasttext-bigrams": "fastText, bigrams",
    "minilm": "fine-tuned MiniLM-L6 (22.7M parameters, pretrained)",
}


class Board:
    """The records by model, data set and metric."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = {}
        self._devices: dict[tuple[str, str], str] = {}
        for record in records:
            key = (record.model, record.dataset, record.metric)
            self._values.setdefault(key, []).append(record.number)
            self._devices[record.model, record.dataset] = record.device

    def of(self, model: str, dataset: str, metric: str) -> list[float]:
        """A value for each seed."""
        return self._values.get((model, dataset, metric), [])

    def device(self, model: str, dataset: str) -> str:
        """Where the model was trained."""
        return self._devices.get((model, dataset), "")

    def models(self) -> list[str]:
        """Those with a record, in the order of ``TITLES``."""
        known = {model for model, _, _ in self._values}
        return [model for model in TITLES if model in known]

    def best(self, dataset: str) -> str:
        """The most accurate model on a set."""
        return max(
            (model for model in self.models() if self.of(model, dataset, "accuracy")),
            key=lambda model: mean(self.of(model, dataset, "accuracy")),
        )


def accuracy_table(board: Board) -> str:
    """Accuracy of every model on every set; means over seeds, the best in bold."""
    lines = [_row(["test accuracy", *SETS]), _row(["---", *["--:"] * len(SETS)])]
    for model in board.models():
        cells = [_accuracy(board, model, dataset) for dataset in SETS]
        lines.append(_row([TITLES[model], *cells]))
    return "\n".join(lines)


def set_table(board: Board, dataset: str) -> str:
    """All figures of one set."""
    columns = ["model", "accuracy", "macro-F1", "calibration error", "size", "texts/s", "training"]
    lines = [_row(columns), _row(["---", *["--:"] * 6])]
    lines += [
        _row([TITLES[model], *_figures(board, model, dataset)])
        for model in board.models()
        if board.of(model, dataset, "accuracy")
    ]
    return "\n".join(lines)


def verdict(board: Board) -> str:
    """Who wins where, in words."""
    won = [dataset for dataset in SETS if board.best(dataset) == "default"]
    lost = [
        f"{TITLES[board.best(dataset)]} on {dataset}"
        for dataset in SETS
        if board.best(dataset) != "default"
    ]
    ours = f"The default recipe is the most accurate on {', '.join(won)}." if won else ""
    theirs = f"Something else wins elsewhere: {'; '.join(lost)}." if lost else ""
    return " ".join(part for part in (ours, theirs) if part)


def read_board(results: Path) -> Board:
    """Our own experiment, and from the paper's protocol the row of its proposed model."""
    known = Results(results)
    paper = [
        record
        for record in known.of("accuracy")
        if record.model == "lama-ctx" and record.metric in METRICS and record.dataset in SETS
    ]
    return Board([*known.of(EXPERIMENT), *paper])


def write_page(results: Path) -> None:
    """``results/leaderboard.md``."""
    board = read_board(results)
    sections = [
        "# Leaderboard",
        "Every model learns from the training part alone, everything is chosen on validation data, "
        "and the test part is scored once. Means over seeds, with the standard deviation where "
        "there are several. Made by `python -m lamatext.reproduce.leaderboard` from "
        "`leaderboard.json`, which names seed, device, versions and commit of every figure.",
        accuracy_table(board),
        verdict(board),
    ]
    for dataset in SETS:
        sections += [f"## {dataset}", set_table(board, dataset)]
    write_text(results / "leaderboard.md", "\n\n".join(sections) + "\n")


def _accuracy(board: Board, model: str, dataset: str) -> str:
    values = board.of(model, dataset, "accuracy")
    if not values:
        return "–"
    shown = f"{mean(values):.4f}"
    return f"**{shown}**" if board.best(dataset) == model else shown


def _figures(board: Board, model: str, dataset: str) -> list[str]:
    def of(metric: str) -> list[float]:
        return board.of(model, dataset, metric)

    size, speed, seconds = of("bytes"), of("texts_per_second"), of("seconds")
    return [
        _spread(of("accuracy")),
        _spread(of("macro_f1")),
        _spread(of("calibration_error")),
        f"{mean(size) / 1e6:.1f} MB" if size else "–",
        f"{mean(speed):,.0f}" if speed else "–",
        f"{mean(seconds):.0f} s, {board.device(model, dataset)}" if seconds else "–",
    ]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} ± {stdev(values):.4f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
