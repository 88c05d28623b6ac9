"""The paper's figures, from records alone: PNG and SVG on white, in colours all can tell apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lamatext.errors import require
from lamatext.reproduce.accuracy_tables import scores
from lamatext.reproduce.attended import WORDS
from lamatext.reproduce.protocol import CHOSEN_ON, HEADS
from lamatext.reproduce.published import DATASETS
from lamatext.reproduce.records import Record, Results
from lamatext.reproduce.tables import heading, title

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
STYLE = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 10,
    "svg.hashsalt": "lamatext",
}

MILLIONS = (0.5, 1, 2, 5, 10, 20)

Axes = Any  # matplotlib's; it is an extra, so its types are not here


def draw(results: Results, name: str, folder: Path) -> list[Path]:
    """The files of the figure of that name; none where there is nothing to draw."""
    matplotlib = require("matplotlib", extra="train", purpose="figures")
    matplotlib.use("Agg")
    pyplot = require("matplotlib.pyplot", extra="train", purpose="figures")
    with matplotlib.rc_context(STYLE):
        figure = FIGURES[name](results, pyplot)
        if figure is None:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(paths[0], dpi=160, bbox_inches="tight")
        figure.savefig(paths[1], bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
    return paths


def _runtime(results: Results, pyplot: Any) -> Any:
    records = results.of("runtime")
    panels = list(dict.fromkeys((r.dataset, r.device) for r in records))
    if not panels:
        return None
    figure, all_axes = pyplot.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 3.4), squeeze=False
    )
    for axes, (dataset, device) in zip(all_axes[0], panels, strict=True):
        here = [r for r in records if (r.dataset, r.device) == (dataset, device)]
        for number, model in enumerate(("lama-encoder", "te")):
            _band(axes, *_times(here, model), title(model), number)
        axes.set(title=f"{dataset}, {device}", xlabel="words of a text at most", ylim=(0, None))
        axes.set_ylabel("seconds an epoch")
        axes.legend()
    return figure


def _times(records: list[Record], model: str) -> tuple[list[float], list[list[float]]]:
    mine = sorted(
        (float(str(r.config["text.max_words"])), [float(v) for v in r.value])  # type: ignore[union-attr]
        for r in records
        if r.model == model
    )
    return [words for words, _ in mine], [passes for _, passes in mine]


def _band(
    axes: Axes, places: list[float], values: list[list[float]], label: str, number: int
) -> None:
    """The mean as a line, the spread as a band."""
    if not places:
        return
    means = np.array([np.mean(v) for v in values])
    spread = np.array([np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values])
    colour = COLOURS[number % len(COLOURS)]
    mark = MARKS[number % len(MARKS)]
    axes.plot(places, means, color=colour, marker=mark, markersize=4, label=label)
    axes.fill_between(places, means - spread, means + spread, color=colour, alpha=0.2, lw=0)


def _params_vs_accuracy(results: Results, pyplot: Any) -> Any:
    shown = [name for name in DATASETS if scores(results, name, "lama-ctx")]
    if not shown:
        return None
    columns = min(len(shown), 3)
    lines = -(-len(shown) // columns)
    figure, all_axes = pyplot.subplots(
        lines, columns, figsize=(4.2 * columns, 3.5 * lines), squeeze=False
    )
    for axes in all_axes.flat[len(shown) :]:
        axes.set_visible(False)
    models = ("lama-ctx", "lama", "san", "te", "bigru", "cnn", "avg", "lama-encoder", "bert")
    for axes, dataset in zip(all_axes.flat, shown, strict=False):
        for number, model in enumerate(models):
            _point(axes, scores(results, dataset, model), title(model), number)
        axes.set(xscale="log", title=heading(dataset), xlabel="million trainable parameters")
        axes.set_ylabel("accuracy on test")
        axes.set_xticks(MILLIONS, [f"{tick:g}" for tick in MILLIONS])
        axes.set_xticks([], minor=True)
    all_axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def _point(axes: Axes, records: list[Record], label: str, number: int) -> None:
    sized = [r for r in records if r.parameters]
    if not sized:
        return
    values = [r.number for r in sized]
    axes.errorbar(
        float(np.mean([r.parameters or 0 for r in sized])) / 1e6,
        float(np.mean(values)),
        yerr=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKS[(number + number // len(COLOURS)) % len(MARKS)],
        linestyle="none",
        capsize=3,
        label=label,
    )


def _word_weights(results: Results, pyplot: Any) -> Any:
    records = [r for r in results.of("word-weights") if r.dataset == "clothing"]
    plain = [r for r in records if not r.config] or records
    if not plain:
        return None
    figure, all_axes = pyplot.subplots(2, 4, figsize=(13, 6), squeeze=False)
    for axes, word in zip(all_axes.flat, WORDS, strict=False):
        for number, rating in enumerate("12345"):
            values = [r.value for r in plain if r.metric == f"{word} in {rating}"]
            _density(axes, np.array(values[0] if values else [], float), rating, number)
        axes.set(title=word, xlabel="weight (1: the mean of its text)", yticks=[])
    all_axes.flat[0].legend(title="stars", fontsize=8)
    all_axes.flat[-1].set_visible(False)
    figure.tight_layout()
    return figure


def _density(axes: Axes, values: Any, label: str, number: int) -> None:
    """A smoothed distribution, where there are enough values for one."""
    if len(values) < 5:
        return
    width = max(1.06 * values.std() * len(values) ** -0.2, 1e-3)
    places = np.linspace(values.min() - 3 * width, values.max() + 3 * width, 200)
    heights = np.exp(-0.5 * ((places[:, None] - values) / width) ** 2).sum(1)
    heights /= len(values) * width * np.sqrt(2 * np.pi)
    label = f"{label} ({len(values)} times)"
    axes.plot(places, heights, color=COLOURS[number], label=label, lw=1.5)


def _heads(results: Results, pyplot: Any) -> Any:
    records = [r for r in results.of("heads") if r.metric == "valid_curve"]
    shown = [name for name in CHOSEN_ON if any(r.dataset == name for r in records)]
    if not shown:
        return None
    figure, all_axes = pyplot.subplots(
        1, len(shown), figsize=(4.4 * len(shown), 3.6), squeeze=False
    )
    for axes, dataset in zip(all_axes[0], shown, strict=True):
        for number, heads in enumerate(HEADS):
            curves = [
                r.value
                for r in records
                if (r.dataset, r.model) == (dataset, "lama-ctx")
                and r.config.get("model.heads") == heads
            ]
            places, values = _by_epoch(curves)
            _band(axes, places, values, f"m = {heads}", number)
        axes.set(title=heading(dataset), xlabel="epoch", ylabel="validation accuracy")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(fontsize=8)
    figure.tight_layout()
    return figure


def _by_epoch(curves: list[Any]) -> tuple[list[float], list[list[float]]]:
    """The folds' accuracies at each epoch that all of them reached."""
    shortest = min((len(curve) for curve in curves), default=0)
    epochs = [float(epoch + 1) for epoch in range(shortest)]
    return epochs, [[float(curve[epoch]) for curve in curves] for epoch in range(shortest)]


FIGURES: dict[str, Callable[[Results, Any], Any]] = {
    "runtime": _runtime,
    "params-vs-accuracy": _params_vs_accuracy,
    "word-weights": _word_weights,
    "heads": _heads,
}
