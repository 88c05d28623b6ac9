"""Scores in the terminal: classes, confusion, calibration, coverage, faithfulness, leaderboard."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from lamatext.errors import number_range, percent, percent_range, plural
from lamatext.explain.faithfulness import Faithfulness
from lamatext.metrics import (
    AnyScores,
    CoveragePoint,
    MultiLabelScores,
    Reliability,
    Scores,
    accuracy_interval,
    merge_small_bins,
    wilson_interval,
)
from lamatext.runtime.predictor import Predictor
from lamatext.views.formatting import accuracy_comparison, file_size, probability, terminal_text
from lamatext.views.terminal_explanation import example_lines
from lamatext.views.terminal_table import TerminalTable

if TYPE_CHECKING:
    from lamatext.baselines import LeaderboardRow
    from lamatext.continuation import ScoreChange

COLUMNS = {"accuracy": "accuracy", "macro-F1": "macro_f1"}
MULTI_LABEL_COLUMNS = {
    "micro-F1": "micro_f1",
    "macro-F1": "macro_f1",
    "mean average precision": "mean_average_precision",
    "subset accuracy": "accuracy",
    "Hamming loss": "hamming_loss",
}
"""Titles and fields of the leaderboard's metrics, for one and for several labels per text."""

MAX_CLASSES = 20  # a larger confusion matrix does not fit a terminal


def show_scores(
    console: Console, scores: AnyScores, texts_per_second: float, *, is_seen: bool = False
) -> None:
    """Print the scores of an evaluation to the terminal, starting with a summary.

    If the model was trained on the texts (``is_seen``), the output starts with a warning.
    """
    if is_seen:
        console.print(
            "TRAINING TEXTS: these scores say how well the model remembers the texts that it was "
            "trained on, not how well it labels new ones.\n"
        )
    if isinstance(scores, MultiLabelScores):
        _show_multi_label_scores(console, scores, texts_per_second)
        return
    console.print(
        f"accuracy {percent(scores.accuracy)} (95 % interval "
        f"{percent_range(*scores.accuracy_interval)}), macro-F1 {scores.macro_f1:.3f}"
        f"{_macro_f1_interval(scores)}, "
        f"calibration error {percent(scores.calibration_error)}, log loss {scores.log_loss:.3f}\n"
        f"{plural(scores.texts, 'text')}, {texts_per_second:,.0f} texts/s\n"
    )
    rows = [
        (c.label, f"{c.precision:.3f}", f"{c.recall:.3f}", f"{c.f1:.3f}", f"{c.texts:,}")
        for c in scores.classes
    ]
    console.print(TerminalTable(("class", "precision", "recall", "F1", "texts"), rows))
    _show_confusion(console, scores)
    _show_reliability(console, scores.reliability)
    _show_coverage(console, scores.coverage)


def _macro_f1_interval(scores: Scores) -> str:
    interval = scores.macro_f1_interval
    return "" if interval is None else f" ({number_range(*interval)})"


def scores_sentence(scores: AnyScores, *, is_seen: bool = False) -> str:
    """Return a sentence with the main scores of a model on test texts for the terminal.

    If the model was trained on these texts (``is_seen``), the sentence says that its quality on new
    texts is unknown, instead of giving scores.
    """
    if is_seen:
        return (
            f"{plural(scores.texts, 'training text')}: how well the model labels new texts is "
            "unknown. Give labelled texts that it was not trained on."
        )
    if isinstance(scores, MultiLabelScores):
        return (
            f"micro-F1 {scores.micro_f1:.3f} (95 % interval "
            f"{number_range(*scores.micro_f1_interval)}), macro-F1 {scores.macro_f1:.3f} on "
            f"{plural(scores.texts, 'test text')}."
        )
    return (
        f"accuracy {percent(scores.accuracy)} (95 % interval "
        f"{percent_range(*scores.accuracy_interval)}), macro-F1 {scores.macro_f1:.3f} on "
        f"{plural(scores.texts, 'test text')}."
    )


def _show_multi_label_scores(
    console: Console, scores: MultiLabelScores, texts_per_second: float
) -> None:
    console.print(
        f"micro-F1 {scores.micro_f1:.3f} (95 % interval "
        f"{number_range(*scores.micro_f1_interval)}), macro-F1 {scores.macro_f1:.3f}, "
        f"mean average precision {scores.mean_average_precision:.3f}, "
        f"subset accuracy {percent(scores.subset_accuracy)}, Hamming loss "
        f"{scores.hamming_loss:.4f}, calibration error {percent(scores.calibration_error)}\n"
        f"{plural(scores.texts, 'text')}, {texts_per_second:,.0f} texts/s\n"
    )
    rows = [
        (
            c.label,
            f"{c.precision:.3f}",
            f"{c.recall:.3f}",
            f"{c.f1:.3f}",
            f"{c.average_precision:.3f}",
            f"{c.texts:,}",
        )
        for c in scores.classes
    ]
    columns = ("label", "precision", "recall", "F1", "average precision", "texts")
    console.print(TerminalTable(columns, rows))
    _show_reliability(console, scores.reliability, counted="decisions")


def show_threshold(console: Console, point: CoveragePoint, target: float, texts: int) -> None:
    """Print the confidence threshold for a target accuracy to the terminal."""
    console.print(
        f"\nTarget accuracy {percent(target)}: answer if the probability is at least "
        f"{percent(point.threshold, 2)}, otherwise unsure.\n"
        f"Of {plural(texts, 'text')} {percent(point.answered)} are answered, with an accuracy of "
        f"{percent(point.accuracy)} (95 % interval {percent_range(point.low, point.high)}, "
        "which allows for choosing the threshold on the same texts)."
    )


def show_faithfulness(console: Console, faithfulness: Faithfulness) -> None:
    """Print a table of faithfulness scores and a one-line summary to the terminal."""
    shares = faithfulness.shares
    places = [shares.index(share) for share in (0.05, 0.2, 0.5)]
    console.print(
        f"\nFaithfulness of the explanations on {plural(faithfulness.texts, 'text')}: probability "
        "of the predicted class when words are removed"
    )
    rows = [
        (
            name,
            str(order.comprehensiveness),
            str(order.sufficiency),
            *(f"{order.deletion[place].value:.2f}" for place in places),
            *(f"{order.insertion[place].value:.2f}" for place in places),
        )
        for name, order in faithfulness.orders.items()
    ]
    kinds = ("without", "only")
    curves = [f"{kind} {percent(shares[place], 0)}" for kind in kinds for place in places]
    columns = ("words ranked by", "comprehensiveness", "sufficiency", *curves)
    console.print(TerminalTable(columns, rows))
    console.print(
        "Higher comprehensiveness and lower sufficiency are better; 95 % intervals in brackets.",
        markup=False,
    )
    console.print(f"\n{faithfulness.verdict()}", markup=False)


def show_examples(
    console: Console, predictor: Predictor, examples: Sequence[Mapping[str, str]], folds: int = 0
) -> None:
    """Print example texts to the terminal with predictions and the words that explain them."""
    if examples:
        part = "Training" if folds else "Test"
        console.print(f"\n{part} texts with their predictions and the reasons")
    for example in examples:
        explanation = predictor.explain(example["text"])
        for line in example_lines(explanation, example["label"]):
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))


def show_leaderboard(
    console: Console, rows: Sequence["LeaderboardRow"], texts: int, folds: int = 0
) -> None:
    """Print the leaderboard of the model and its baselines to the terminal, best scores first.

    Args:
        console: the terminal.
        rows: the model's row, then those of the baselines.
        texts: number of test texts.
        folds: number of folds if the scores are from cross-validation.
    """
    is_multi_label = rows[0].micro_f1 is not None
    metrics = MULTI_LABEL_COLUMNS if is_multi_label else COLUMNS
    title, *others = metrics
    first = metrics[title]
    columns = ("model", title, "95 % interval", *others, "size", "texts/s", "training")
    cells = [
        (
            row.model,
            _score(first, getattr(row, first)),
            _row_interval(row, texts, folds),
            *(_score(metrics[name], getattr(row, metrics[name])) for name in others),
            file_size(row.bytes),
            f"{row.texts_per_second:,.0f}",
            f"{row.seconds:,.{0 if row.seconds >= 10 else 1}f} s",
        )
        for row in sorted(rows, key=lambda row: -getattr(row, first))
    ]
    console.print(TerminalTable(columns, cells))
    if folds:
        console.print(
            f"Scores of {folds}-fold cross-validation on {plural(texts, 'text')}.", markup=False
        )
    console.print(_leaderboard_summary(rows, texts, folds), markup=False)


def show_changes(console: Console, changes: Sequence["ScoreChange"]) -> None:
    """Print the scores before and after continued training (``--from``) to the terminal."""
    cells = [
        (
            f"{'old' if change.is_old else 'new'}: {terminal_text(change.data)}",
            f"{change.texts:,}",
            change.metric,
            f"{percent(change.before)} ({percent_range(*change.before_interval)})",
            f"{percent(change.after)} ({percent_range(*change.after_interval)})",
        )
        for change in changes
    ]
    console.print(TerminalTable(("test data", "texts", "score", "before", "after"), cells))
    for change in changes:
        if change.is_forgotten:
            source = terminal_text(change.data)
            console.print(
                f"On {source} the {change.metric} fell by more than its interval: "
                "the model forgot part of what it knew. Train on old and new texts together, or "
                "lower training.learning_rate or training.epochs.",
                markup=False,
            )


def _score(name: str, value: float) -> str:
    return percent(value) if name == "accuracy" else f"{value:.3f}"


def _row_interval(row: "LeaderboardRow", texts: int, folds: int) -> str:
    """Format the 95 % confidence interval of the score in a leaderboard row."""
    if row.micro_f1_interval is not None:
        return number_range(*row.micro_f1_interval)
    return percent_range(*accuracy_interval(row.accuracy, texts, folds))


def _leaderboard_summary(rows: Sequence["LeaderboardRow"], texts: int, folds: int) -> str:
    own, baselines = rows[0], rows[1:]
    tested = plural(texts, "text" if folds else "test text")
    if own.micro_f1 is not None:
        return _micro_f1_summary(rows, tested)
    if not baselines:
        return f"{own.model} labels {percent(own.accuracy)} of {tested} correctly."
    best = max(baselines, key=lambda row: row.accuracy)
    return accuracy_comparison((own.model, own.accuracy), (best.model, best.accuracy), texts)


def _micro_f1_summary(rows: Sequence["LeaderboardRow"], tested: str) -> str:
    """Return a sentence that compares the micro-F1 of the model and of the best baseline."""
    own, baselines = rows[0], rows[1:]
    if not baselines:
        return f"{own.model}: micro-F1 {own.micro_f1:.3f} on {tested}."
    best = max(baselines, key=lambda row: row.micro_f1 or 0.0)
    ahead, behind = sorted((own, best), key=lambda row: -(row.micro_f1 or 0.0))
    scores = f"{ahead.micro_f1:.3f}", f"{behind.micro_f1:.3f}"
    if scores[0] == scores[1]:
        return f"{own.model} and {best.model} have the same micro-F1 ({scores[0]}) on {tested}."
    compared = f"{ahead.model} is ahead of {behind.model} in micro-F1 on {tested}"
    return f"{compared}: {scores[0]}, compared with {scores[1]}."


def _show_confusion(console: Console, scores: Scores) -> None:
    labels = [c.label for c in scores.classes]
    if len(labels) > MAX_CLASSES:
        console.print(f"\nMost frequent confusions of {len(labels)} classes:")
        pairs = [
            (count, labels[i], labels[j])
            for i, row in enumerate(scores.confusion)
            for j, count in enumerate(row)
            if i != j and count
        ]
        most_frequent = sorted(pairs, reverse=True)[:MAX_CLASSES]
        rows = [(f"{true} → {predicted}", f"{n:,}") for n, true, predicted in most_frequent]
        console.print(TerminalTable(("true → predicted", "texts"), rows))
        return
    console.print("\nConfusion matrix: rows are the true classes, columns the predicted ones")
    matrix = [(labels[i], *map(str, row)) for i, row in enumerate(scores.confusion)]
    console.print(TerminalTable(("", *labels), matrix))


def _show_reliability(
    console: Console, reliability: Reliability, *, counted: str = "texts"
) -> None:
    """Print a calibration table that counts texts, or decisions if a text has several labels."""
    console.print("\nCalibration: accuracy of predictions with about the same probability")
    bins = merge_small_bins(reliability)
    groups = zip(bins.confidence, bins.accuracy, bins.texts, strict=True)
    rows = []
    for confidence, accuracy, texts in groups:
        low, high = wilson_interval(accuracy, texts)
        interval = percent_range(low, high)
        rows.append((percent(confidence), percent(accuracy), interval, f"{texts:,}"))
    columns = ("probability", "accuracy", "95 % interval", counted)
    console.print(TerminalTable(columns, rows))


def _show_coverage(console: Console, coverage: Sequence[CoveragePoint]) -> None:
    """Print a table of accuracy over coverage to the terminal."""
    points = [point for point in coverage if point.answered < 1]
    if not points:
        return
    console.print(
        "\nAccuracy over coverage: if only the most confident texts are answered. "
        "The intervals hold for all rows together"
    )
    steps = range(1, 10)  # tenths of the texts
    nearest = [min(points, key=lambda p: abs(p.answered - tenths / 10)) for tenths in steps]
    rows = [
        (
            percent(point.answered),
            probability(point.threshold),
            percent(point.accuracy),
            percent_range(point.low, point.high),
        )
        for point in dict.fromkeys(reversed(nearest))
    ]
    columns = ("answered", "probability at least", "accuracy", "95 % interval")
    console.print(TerminalTable(columns, rows))
