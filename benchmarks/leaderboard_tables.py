"""``python -m benchmarks tables``: the leaderboard's tables in leaderboard.md and README.md."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

from benchmarks import (
    batch_sizes,
    costs,
    coverage,
    distillation,
    leaderboard,
    multi_label,
    outliers,
    recipe_ablation,
    recipe_history,
)
from benchmarks.accuracy_jobs import RECORDS
from lamatext.baselines import BASELINES
from lamatext.errors import percent
from paper.markdown import MISSING, fill_blocks, markdown_table
from paper.records import PAPER_RECORDS, Record, Records

DATASETS = ("r8", "imdb", "news", "clothing", "mr")
EXTRA_DATASETS = ("r52", "newsgroups", "authors", "topics")  # not used to develop the recipe
MULTI_LABEL_DATASETS = ("reuters", "goemotions")
SCORES = ("accuracy", "macro_f1", "calibration_error")
MINILM = costs.MINILM
STUDENT = "student"
CALIBRATED = ("default", STUDENT)  # probabilities scaled on validation data
TITLES = {
    "default": "**lamatext**, default recipe",
    "student": "**lamatext**, `--teacher minilm`",
    "lama-ctx": "LAMA+ctx, the paper's recipe",
    "tfidf": "TF-IDF (1,2) + logistic regression",
    "tfidf-svc": "TF-IDF (1,2) + LinearSVC",
    "tfidf-chars": "TF-IDF words and characters + LinearSVC",
    "tfidf-chars-lr": "TF-IDF words and characters + logistic regression",
    "fasttext": "fastText",
    "fasttext-bigrams": "fastText, bigrams",
    MINILM: "fine-tuned MiniLM-L6 (pretrained)",
}
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "leaderboard.md"
README = ROOT / "README.md"

COSTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "bytes": ("size", lambda value: f"{value / 1e6:.1f} MB"),
    "texts_per_second": ("texts/s", lambda value: f"{value:,.0f}"),
    "latency_ms": ("one text", lambda value: f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms"),
    "seconds": ("training", lambda value: f"{value:,.0f} s"),
}


class Leaderboard:
    """The leaderboard's recorded values by model, data set and metric."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_cell: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            key = (record.model, record.dataset, record.metric)
            self._by_cell.setdefault(key, []).append(record)

    def values(self, model: str, dataset: str, metric: str) -> list[float]:
        """Return a leaderboard cell's values, one per seed."""
        return [record.number for record in self._by_cell.get((model, dataset, metric), [])]

    def mean(self, model: str, dataset: str, metric: str) -> float | None:
        """Return a leaderboard cell's mean over seeds; None without a record."""
        values = self.values(model, dataset, metric)
        return mean(values) if values else None

    def spread(self, model: str, dataset: str, metric: str) -> float:
        """Return a leaderboard cell's standard deviation over seeds; 0 for a single value."""
        values = self.values(model, dataset, metric)
        return stdev(values) if len(values) > 1 else 0.0

    def device(self, model: str, dataset: str, metric: str) -> str:
        """Return the device on which a leaderboard cell was measured; empty without a record."""
        records = self._by_cell.get((model, dataset, metric))
        return records[0].device if records else ""

    def models(self, datasets: Sequence[str] = DATASETS) -> list[str]:
        """Return the models that have an accuracy record, in display order."""
        return [
            model
            for model in TITLES
            if any(self.values(model, dataset, "accuracy") for dataset in datasets)
        ]

    def best_models(self, dataset: str) -> list[str]:
        """Return the most accurate model and those within the standard deviation over seeds."""
        means = {
            model: accuracy
            for model in TITLES
            if (accuracy := self.mean(model, dataset, "accuracy")) is not None
        }
        best = max(means, key=lambda model: means[model])
        return [model for model in means if self.within_spread(best, model, dataset)]

    def within_spread(self, one: str, other: str, dataset: str) -> bool:
        """Return whether two accuracies differ by no more than the larger of their spreads."""
        first, second = (self.mean(model, dataset, "accuracy") for model in (one, other))
        if first is None or second is None:
            return False
        spread = max(self.spread(model, dataset, "accuracy") for model in (one, other))
        return abs(first - second) <= spread


def read_leaderboard(folder: Path = RECORDS, paper_folder: Path = PAPER_RECORDS) -> Leaderboard:
    """Read the leaderboard's scores and costs, and LAMA+ctx and MiniLM from the paper's records."""
    records = Records(folder)
    scores = [r for r in records.of(leaderboard.EXPERIMENT) if r.metric in SCORES]
    paper_scores = _paper_rows(Records(paper_folder))
    students, all_costs = _student_rows(records), records.of(costs.EXPERIMENT)
    return Leaderboard([*scores, *students, *paper_scores, *all_costs])


def _student_rows(records: Records) -> Iterator[Record]:
    """Yield the scores and costs of students that learned all labels of a data set."""
    for record in records.of(distillation.EXPERIMENT):
        if record.model == STUDENT and record.dataset in DATASETS:
            yield record


def _paper_rows(records: Records) -> Iterator[Record]:
    """Yield the records of LAMA+ctx, and of MiniLM with its training time on a GPU."""
    for record in records.of("accuracy"):
        if record.metric not in SCORES:
            continue
        if record.model == "lama-ctx":
            yield record
        elif record.config.get("model.pretrained") == MINILM:
            yield replace(record, model=MINILM)
            if record.metric == "accuracy":
                yield replace(record, model=MINILM, metric="seconds", value=record.seconds)


def accuracy_table(board: Leaderboard, datasets: Sequence[str] = DATASETS) -> str:
    """Format the leaderboard's mean accuracies; the best and those within its spread are bold."""
    rows = [
        [TITLES[model], *_accuracies(board, model, datasets)] for model in board.models(datasets)
    ]
    return markdown_table(["test accuracy", *datasets], rows)


def readme_table(board: Leaderboard) -> str:
    """Format the README's results table: accuracy, size and latency of the leaderboard's models."""
    rows = [
        [
            TITLES[model],
            *_accuracies(board, model, DATASETS),
            *(_range(board, model, metric) for metric in ("bytes", "latency_ms")),
        ]
        for model in board.models()
    ]
    return markdown_table(["test accuracy", *DATASETS, "size", "one text"], rows)


def _accuracies(board: Leaderboard, model: str, datasets: Sequence[str]) -> Iterator[str]:
    for dataset in datasets:
        accuracy = board.mean(model, dataset, "accuracy")
        if accuracy is None:
            yield MISSING
        else:
            mark = "**" if model in board.best_models(dataset) else ""
            yield f"{mark}{accuracy:.4f}{mark}"


def dataset_table(board: Leaderboard, dataset: str) -> str:
    """Format all leaderboard scores and costs on one data set."""
    header = ["model", "accuracy", "macro-F1", "calibration error"]
    shown = [metric for metric in COSTS if board.values("default", dataset, metric)]
    rows = [
        [
            TITLES[model],
            *(_score(board, model, dataset, metric) for metric in SCORES),
            *(_cost(board, model, dataset, metric) for metric in shown),
        ]
        for model in board.models([dataset])
    ]
    return markdown_table([*header, *(COSTS[metric][0] for metric in shown)], rows)


def costs_table(board: Leaderboard) -> str:
    """Format the range of each model's costs over the leaderboard's data sets."""
    rows = [
        [TITLES[model], *(_range(board, model, metric) for metric in COSTS)]
        for model in board.models()
    ]
    return markdown_table(["over the five data sets", *(t for t, _ in COSTS.values())], rows)


def _score(board: Leaderboard, model: str, dataset: str, metric: str) -> str:
    value, spread = board.mean(model, dataset, metric), board.spread(model, dataset, metric)
    if value is None:
        return MISSING
    raw = " (raw)" if metric == "calibration_error" and model not in CALIBRATED else ""
    return f"{value:.4f}{f' ± {spread:.4f}' if spread else ''}{raw}"


def _cost(board: Leaderboard, model: str, dataset: str, metric: str) -> str:
    value = board.mean(model, dataset, metric)
    if value is None:
        return MISSING
    return COSTS[metric][1](value) + _training_device(board, model, metric, [dataset])


def _range(board: Leaderboard, model: str, metric: str) -> str:
    show = COSTS[metric][1]
    means = [board.mean(model, dataset, metric) for dataset in DATASETS]
    values = [value for value in means if value is not None]
    if not values:
        return MISSING
    low, high = show(min(values)), show(max(values))
    first = "" if low == high else f"{low.split()[0]} to "
    return first + high + _training_device(board, model, metric, DATASETS)


def _training_device(board: Leaderboard, model: str, metric: str, datasets: Sequence[str]) -> str:
    if metric != "seconds":
        return ""
    device = next(filter(None, (board.device(model, dataset, metric) for dataset in datasets)))
    return f", {device.partition(',')[0] if device.startswith('NVIDIA') else 'CPU'}"


def outlier_table(records: Records) -> str:
    """Format how well the leaderboard's models tell texts of no class from the others."""
    board = Leaderboard(records.of(outliers.EXPERIMENT))
    metrics = ("accuracy", "auroc", "caught", "flagged_in_scope", "flagged_outliers")
    rows = [
        [TITLES[model], *(_score(board, model, outliers.DATASET, metric) for metric in metrics)]
        for model in board.models([outliers.DATASET])
    ]
    header = ["clinc150", "accuracy in scope", "AUROC", "caught at 5 % refused"]
    return markdown_table([*header, "marked in scope", "marked out of scope"], rows)


def multi_label_table(records: Records, dataset: str) -> str:
    """Format the leaderboard of several labels per text on one data set: scores and costs.

    The best mean of each score is bold.
    """
    board = Leaderboard(records.of(multi_label.EXPERIMENT))
    models = board.models([dataset])
    scores = {
        "micro_f1": "micro-F1",
        "macro_f1": "macro-F1",
        "mean_average_precision": "mean average precision",
        "accuracy": "all labels right",
        "hamming_loss": "Hamming loss",
    }
    scores = {
        metric: title
        for metric, title in scores.items()
        if any(board.values(model, dataset, metric) for model in models)
    }
    rows = []
    for model in models:
        row = [TITLES[model]]
        for metric in scores:
            measured = [name for name in models if board.values(name, dataset, metric)]
            choose = min if metric == "hamming_loss" else max
            best = choose(measured, key=lambda name: board.mean(name, dataset, metric) or 0.0)
            mark = "**" if model == best else ""
            row.append(f"{mark}{_score(board, model, dataset, metric)}{mark}")
        costs = [metric for metric in COSTS if metric != "latency_ms"]
        rows.append([*row, *(_cost(board, model, dataset, metric) for metric in costs)])
    titles = [title for metric, (title, _) in COSTS.items() if metric != "latency_ms"]
    return markdown_table([dataset, *scores.values(), *titles], rows)


def label_table(records: Records, dataset: str) -> str:
    """Format the leaderboard's scores of each label, the most frequent first.

    They are means over seeds; the last column is the largest F1 of a baseline.
    """
    by_model: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for record in records.of(multi_label.EXPERIMENT):
        if record.dataset == dataset and isinstance(record.value, Mapping):
            values = by_model.setdefault(record.model, {}).setdefault(record.metric, [])
            values.append(record.value)
    own = by_model.get("default", {})
    baselines = [
        f1 for model in by_model if model in BASELINES for f1 in by_model[model]["label_f1"]
    ]
    texts = own.get("label_texts", [{}])[0]
    rows = [
        [
            label,
            f"{texts[label]:.0f}",
            *(
                f"{mean(values[label] for values in own[f'label_{metric}']):.3f}"
                for metric in ("precision", "recall", "f1")
            ),
            f"{max((values[label] for values in baselines), default=0.0):.3f}",
        ]
        for label in sorted(texts, key=lambda label: (-texts[label], label))
    ]
    header = [f"label of {dataset}", "texts", "precision", "recall", "F1"]
    return markdown_table([*header, "best F1 of a baseline"], rows)


def coverage_table(records: Records) -> str:
    """Format the thresholds for a target accuracy: held-out texts, interval and test texts."""
    board = Leaderboard(records.of(coverage.EXPERIMENT))
    seeds: dict[tuple[str, str], None] = dict.fromkeys(
        (record.dataset, record.model) for record in records.of(coverage.EXPERIMENT)
    )
    rows = []
    for dataset, target in seeds:
        shown = [
            board.values(target, dataset, metric)
            for metric in ("held_out_answered", "low", "high", "test_answered", "test_accuracy")
        ]
        for answered, low, high, test_answered, accuracy in zip(*shown, strict=True):
            interval = f"{low:.3f} to {high:.3f}"
            rows.append(
                [f"{dataset}, {float(target):.2f}", percent(answered, 0), interval,
                 percent(test_answered, 0), f"{accuracy:.4f}"]
            )  # fmt: skip
    header = ["data, target", "answered", "95 % interval", "answered on test", "accuracy on test"]
    return markdown_table(header, rows)


def leaderboard_blocks(
    folder: Path = RECORDS, paper_folder: Path = PAPER_RECORDS
) -> dict[str, str]:
    """Return the generated tables of leaderboard.md by block name."""
    board, records = read_leaderboard(folder, paper_folder), Records(folder)
    return {
        "accuracy": accuracy_table(board),
        "costs": costs_table(board),
        "extra": accuracy_table(board, EXTRA_DATASETS),
        "outliers": outlier_table(records),
        "coverage": coverage_table(records),
        **{name: multi_label_table(records, name) for name in MULTI_LABEL_DATASETS},
        **{f"{name}-labels": label_table(records, name) for name in MULTI_LABEL_DATASETS},
        **{name: dataset_table(board, name) for name in (*DATASETS, *EXTRA_DATASETS)},
        "distillation": distillation.distillation_table(records),
        "distillation-trials": distillation.distillation_trials_table(records),
        "teacher-trials": distillation.teacher_trials_table(records),
        "distillation-costs": distillation.distillation_cost_table(records),
        "distillation-latency": distillation.distillation_latency_table(records),
        "recipe-history": recipe_history.history_table(records.of(recipe_history.EXPERIMENT)),
        "batch-sizes": batch_sizes.batch_size_table(records.of(batch_sizes.EXPERIMENT)),
        "ablation-accuracy": recipe_ablation.ablation_table(
            records, "accuracy", "accuracy, change in points"
        ),
        "ablation-log-loss": recipe_ablation.ablation_table(
            records, "log_loss", "log-loss, change"
        ),
    }


def run() -> None:
    """Update the leaderboard's tables in benchmarks/leaderboard.md and README.md."""
    fill_blocks(PAGE, leaderboard_blocks())
    fill_blocks(README, {"results": readme_table(read_leaderboard())})
    print(f"updated the tables of {PAGE} and {README}")
