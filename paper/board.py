"""The records behind the leaderboard, brought together by model, data set and metric."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

from paper import costs, leaderboard
from paper.records import Record, Results

SETS = ("r8", "imdb", "news", "clothing", "mr")
OTHERS = ("r52", "newsgroups", "authors", "topics")  # the default recipe was not made on these
SCORES = ("accuracy", "macro_f1", "calibration_error")
MINILM = costs.MINILM
TITLES = {
    "default": "**lamatext**, default recipe",
    "lama-ctx": "LAMA+ctx, the paper's recipe",
    "tfidf": "TF-IDF (1,2) + logistic regression",
    "tfidf-svc": "TF-IDF (1,2) + LinearSVC",
    "tfidf-chars": "TF-IDF words and characters + LinearSVC",
    "fasttext": "fastText",
    "fasttext-bigrams": "fastText, bigrams",
    MINILM: "fine-tuned MiniLM-L6 (pretrained)",
}


class Board:
    """The values of every model on every set."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._found: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            key = (record.model, record.dataset, record.metric)
            self._found.setdefault(key, []).append(record)

    def of(self, model: str, dataset: str, metric: str) -> list[float]:
        """A value for each seed."""
        return [record.number for record in self._found.get((model, dataset, metric), [])]

    def mean(self, model: str, dataset: str, metric: str) -> float | None:
        """The mean over seeds; None where there is no record."""
        values = self.of(model, dataset, metric)
        return mean(values) if values else None

    def spread(self, model: str, dataset: str, metric: str) -> float:
        """The standard deviation over seeds; 0 where there is one."""
        values = self.of(model, dataset, metric)
        return stdev(values) if len(values) > 1 else 0.0

    def device(self, model: str, dataset: str, metric: str) -> str:
        """Where that was measured; empty where it was not."""
        records = self._found.get((model, dataset, metric))
        return records[0].device if records else ""

    def models(self, sets: Sequence[str] = SETS) -> list[str]:
        """Those with an accuracy on one of the sets, in the order of ``TITLES``."""
        return [
            model
            for model in TITLES
            if any(self.of(model, dataset, "accuracy") for dataset in sets)
        ]

    def best(self, dataset: str, *, pretrained: bool = True) -> str:
        """The most accurate model on a set, of all or of those that learn from its texts alone."""
        accuracies = {
            model: accuracy
            for model in TITLES
            if (accuracy := self.mean(model, dataset, "accuracy")) is not None
            and (pretrained or model != MINILM)
        }
        return max(accuracies, key=lambda model: accuracies[model])


def read_board(folder: Path) -> Board:
    """Scores of the leaderboard, of LAMA+ctx and MiniLM by the paper's protocol, and all costs."""
    results = Results(folder)
    scores = [r for r in results.of(leaderboard.EXPERIMENT) if r.metric in SCORES]
    return Board([*scores, *_by_protocol(results), *results.of(costs.EXPERIMENT)])


def _by_protocol(results: Results) -> Iterator[Record]:
    """MiniLM's training time too: of all rows it alone is trained on a GPU."""
    for record in results.of("accuracy"):
        if record.metric not in SCORES:
            continue
        if record.model == "lama-ctx":
            yield record
        elif record.config.get("model.pretrained") == MINILM:
            yield replace(record, model=MINILM)
            if record.metric == "accuracy":
                yield replace(record, model=MINILM, metric="seconds", value=record.seconds)
