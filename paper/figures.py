"""The paper's figures, drawn from the records as PNG and SVG in colour-blind safe colours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lamatext.errors import require
from paper.accuracy_table import accuracy_records
from paper.heads import HEADS, TUNED_DATASETS
from paper.markdown import dataset_heading, system_title
from paper.open_directions import EQUAL_SIZES, title
from paper.published_results import DATASETS
from paper.records import Record, Records
from paper.word_weights import EXAMPLE_WORDS, STARS, recorded_weights

# Okabe and Ito's palette and two more colours; each system also has its own marker
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#7F7F7F", "#6A3D9A"),
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
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
SIZED = ("lama-ctx", "lama", "san", "te", "bigru", "cnn", "avg", "lama-encoder", "minilm")
LINEAR = "tfidf-svc"

Axes = Any  # matplotlib is an optional extra, so its types are not imported


def draw(records: Records, name: str, folder: Path) -> list[Path]:
    """Draw a figure and return its PNG and SVG files; nothing if there are no records for it."""
    matplotlib = require("matplotlib", extra="train", purpose="figures")
    matplotlib.use("Agg")
    pyplot = require("matplotlib.pyplot", extra="train", purpose="figures")
    with matplotlib.rc_context(STYLE):
        figure = FIGURES[name](records, pyplot)
        if figure is None:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(paths[0], dpi=160, bbox_inches="tight")
        figure.savefig(paths[1], bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
    return paths


def _runtime(records: Records, pyplot: Any) -> Any:
    timed = [record for record in records.of("runtime") if "text.max_words" in record.config]
    panels = list(dict.fromkeys((r.dataset, r.device) for r in timed))
    if not panels:
        return None
    figure, all_axes = pyplot.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 3.4), squeeze=False
    )
    for axes, (dataset, device) in zip(all_axes[0], panels, strict=True):
        here = [r for r in timed if (r.dataset, r.device) == (dataset, device)]
        for number, model in enumerate(("lama-encoder", "te")):
            _band(axes, *_times(here, model), system_title(model), number)
        axes.set(title=f"{dataset}, {device}", xlabel="maximum words per text", ylim=(0, None))
        axes.set_ylabel("seconds per epoch")
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
    """Draw the mean as a line and the standard deviation as a band around it."""
    if not places:
        return
    means = np.array([np.mean(v) for v in values])
    spread = np.array([np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values])
    colour = COLOURS[number % len(COLOURS)]
    mark = MARKS[number % len(MARKS)]
    axes.plot(places, means, color=colour, marker=mark, markersize=4, label=label)
    axes.fill_between(places, means - spread, means + spread, color=colour, alpha=0.2, lw=0)


def _params_vs_accuracy(records: Records, pyplot: Any) -> Any:
    shown = [name for name in DATASETS if accuracy_records(records, name, "lama-ctx")]
    if not shown:
        return None
    columns = min(len(shown) + 1, 4)  # one panel is for the legend
    lines = -(-(len(shown) + 1) // columns)
    figure, all_axes = pyplot.subplots(
        lines, columns, figsize=(3.5 * columns, 3.3 * lines), squeeze=False
    )
    for axes, dataset in zip(all_axes.flat, shown, strict=False):
        for number, model in enumerate(SIZED):
            _point(axes, accuracy_records(records, dataset, model), system_title(model), number)
        for record in accuracy_records(records, dataset, LINEAR):
            axes.axhline(record.number, color="0.45", lw=1.2, ls="--", label=system_title(LINEAR))
        axes.set(
            xscale="log", title=dataset_heading(dataset), xlabel="million trainable parameters"
        )
        axes.set_ylabel("test accuracy")
        axes.set_xlim(0.3, 30)
        axes.set_xticks(MILLIONS, [f"{tick:g}" for tick in MILLIONS])
        axes.set_xticks([], minor=True)
    for axes in all_axes.flat[len(shown) :]:
        axes.set_axis_off()
    handles, labels = all_axes.flat[0].get_legend_handles_labels()
    all_axes.flat[len(shown)].legend(
        handles, labels, loc="center", fontsize=9, title="mean ± standard deviation over seeds"
    )
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
        marker=MARKS[number % len(MARKS)],
        markersize=9 if MARKS[number % len(MARKS)] == "*" else 6,
        linestyle="none",
        capsize=3,
        zorder=3 - number / 10,  # LAMA+ctx is drawn on top
        label=label,
    )


def _word_weights(records: Records, pyplot: Any) -> Any:
    if not any(len(recorded_weights(records, word, STARS)) for word in EXAMPLE_WORDS):
        return None
    figure, all_axes = pyplot.subplots(2, 3, figsize=(11, 6.4), sharey=True)
    for axes, word in zip(all_axes.flat, EXAMPLE_WORDS, strict=True):
        for place, star in enumerate(STARS):
            _strip(axes, place, recorded_weights(records, word, star))
        axes.axhline(1, color="0.45", lw=1.2, ls="--")
        counts = [len(recorded_weights(records, word, star)) for star in STARS]
        named = [f"{star}\n({count})" for star, count in zip(STARS, counts, strict=True)]
        axes.set_xticks(range(len(STARS)), named)
        axes.set(title=word, xlim=(-0.6, len(STARS) - 0.4))
        axes.grid(visible=False, axis="x")
    for axes in all_axes[-1]:
        axes.set_xlabel("stars (and number of occurrences)")
    for axes in all_axes[:, 0]:
        axes.set_ylabel("weight (1: the mean of the text)")
    figure.tight_layout()
    return figure


def _strip(axes: Axes, place: int, weights: Any) -> None:
    """Draw each weight as a dot; from five on, also the quartiles as a box and the median."""
    if not len(weights):
        return
    aside = np.random.default_rng(0).uniform(-0.22, 0.22, len(weights))
    axes.scatter(place + aside, weights, s=12, color=COLOURS[0], alpha=0.45, lw=0)
    if len(weights) < 5:
        return
    low, middle, high = np.quantile(weights, [0.25, 0.5, 0.75])
    axes.bar(place, high - low, 0.62, low, facecolor="none", edgecolor=COLOURS[1], lw=1.2)
    axes.hlines(middle, place - 0.31, place + 0.31, color=COLOURS[1], lw=2.2)


def _heads(records: Records, pyplot: Any) -> Any:
    curves = [r for r in records.of("heads") if r.metric == "validation_curve"]
    shown = [name for name in TUNED_DATASETS if any(r.dataset == name for r in curves)]
    if not shown:
        return None
    figure, all_axes = pyplot.subplots(
        1, len(shown), figsize=(4.4 * len(shown), 3.6), squeeze=False
    )
    for axes, dataset in zip(all_axes[0], shown, strict=True):
        for number, heads in enumerate(HEADS):
            folds = [
                r.value
                for r in curves
                if (r.dataset, r.model) == (dataset, "lama-ctx")
                and r.config.get("model.heads") == heads
            ]
            places, values = _by_epoch(folds)
            _band(axes, places, values, f"m = {heads}", number)
        axes.set(title=dataset_heading(dataset), xlabel="epoch", ylabel="validation accuracy")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(fontsize=8)
    figure.tight_layout()
    return figure


def _by_epoch(curves: list[Any]) -> tuple[list[float], list[list[float]]]:
    """Return the accuracies of all folds at each epoch that every fold reached."""
    shortest = min((len(curve) for curve in curves), default=0)
    epochs = [float(epoch + 1) for epoch in range(shortest)]
    return epochs, [[float(curve[epoch]) for curve in curves] for epoch in range(shortest)]


def _text_lengths(records: Records, pyplot: Any) -> Any:
    """Draw time and memory of inference and training by text length on each device."""
    measured = records.of("text-lengths")
    devices = dict.fromkeys(record.device for record in measured)
    columns = [(device, task) for device in devices for task in ("inference", "training")]
    if not columns:
        return None
    metrics = {"microseconds per word": "microseconds per word", "megabytes": "MB of memory"}
    figure, all_axes = pyplot.subplots(
        2, len(columns), figsize=(3.6 * len(columns), 6.4), squeeze=False, sharey="row"
    )
    for column, (device, task) in enumerate(columns):
        for axes, (metric, label) in zip(all_axes[:, column], metrics.items(), strict=True):
            for number, model in enumerate(EQUAL_SIZES):
                points = sorted(
                    (float(str(record.config["words"])), max(record.number, 1e-3))
                    for record in measured
                    if (record.device, record.model, record.metric)
                    == (device, model, f"{task} {metric}")
                )
                if points:
                    axes.plot(
                        *zip(*points, strict=True),
                        color=COLOURS[number],
                        marker=MARKS[number],
                        markersize=4,
                        label=title(model),
                    )
            axes.set(xscale="log", yscale="log", xlabel="words per text")
            axes.set_title(f"{task}, {device}", fontsize=10)
            if column == 0:
                axes.set_ylabel(label)
    lines, names = all_axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, fontsize=9, loc="lower center", ncols=len(names), frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


FIGURES: dict[str, Callable[[Records, Any], Any]] = {
    "runtime": _runtime,
    "params-vs-accuracy": _params_vs_accuracy,
    "word-weights": _word_weights,
    "heads": _heads,
    "text-lengths": _text_lengths,
}
