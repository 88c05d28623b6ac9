"""The paper's tables as Markdown, from records alone; a dash stands where there is no record."""

from collections.abc import Iterable, Sequence
from math import log

import numpy as np

from lamatext.baselines import BASELINES
from lamatext.data.datasets.catalog import CATALOG
from paper.counts import PARAMETER_HEADS, STATISTIC_NAMES
from paper.published import DATASETS, KEYWORDS, STATISTICS, SYSTEMS
from paper.records import Results, Value
from paper.timing import LAYERS, SWEEPS

NONE = "–"
FORMULAS = {
    "LAMA, scores of u": "n·(m·d + d²)",
    "LAMA, scores of h": "n·m·d",
    "SAN": "n·350·(d + m)",
    "TE self-attention": "n²·d + n·d²",
}


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A table; the first so many columns hold words, the others stand to the right."""
    marks = f"|{'---|' * words}{'---:|' * (len(header) - words)}"
    lines = [f"| {' | '.join(header)} |", marks]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def title(model: str) -> str:
    """The name of a row."""
    if model == "bert":
        return "MiniLM, fine-tuned (paper: BERT)"
    return BASELINES[model][0] if model in BASELINES else SYSTEMS[model]


def heading(dataset: str) -> str:
    """The name of a column: ours, and the paper's where it is another."""
    name, stands_in = DATASETS[dataset]
    return f"{dataset} (for {name})" if stands_in and name != "News" else dataset


def share(value: float | None) -> str:
    """An accuracy as the paper prints it."""
    return NONE if value is None else f"{value:.3f}".removeprefix("0")


def datasets_table(results: Results) -> str:
    """Classes, texts and mean words, the published figures in brackets."""
    found = {(r.dataset, r.metric): r for r in results.of("datasets")}

    def cell(dataset: str, place: int) -> str:
        record = found.get((dataset, STATISTIC_NAMES[place]))
        ours = NONE if record is None else f"{record.number:,.0f}"
        paper = STATISTICS.get(dataset)
        return ours if paper is None else f"{ours} ({paper[place]:,})"

    def stands(dataset: str) -> str:
        other = CATALOG[dataset].replaces
        return f"{dataset}, for {other}" if other else dataset

    names = dict.fromkeys([*STATISTICS, *(dataset for dataset, _ in found)])
    rows = [[stands(name), *(cell(name, place) for place in range(4))] for name in names]
    return markdown(("data set", "classes", "train", "test", "mean words"), rows)


def parameters_table(results: Results) -> str:
    """Trainable parameters in millions, by component, beside the published totals."""
    found = {
        (r.model, r.metric, r.config.get("model.heads"), "model.hidden_size" in r.config): r
        for r in results.of("parameters")
    }
    parts = ("embedding", "encoder", "attention", "classifier", "total")
    rows = []
    for model in ("lama-ctx", "te"):
        for heads in PARAMETER_HEADS:
            cells = [found.get((model, part, heads, True)) for part in parts]
            small = found.get((model, "total", heads, False))
            total = cells[-1]
            paper = None if total is None else total.paper
            shown = [_millions(None if r is None else r.number) for r in (*cells, small)]
            rows.append([f"{title(model)}, m = {heads}", *shown[:5], _millions(paper), shown[5]])
    header = ("millions", *parts, "paper", "total of our recipe")
    return markdown(header, rows)


def _millions(value: float | None) -> str:
    return NONE if value is None else f"{value / 1e6:.3f}"


def complexity_table(results: Results) -> str:
    """The exponent of the growth between the two largest sizes: operations, and seconds."""
    found: dict[tuple[object, ...], float] = {
        (r.model, r.config["grows"], r.config[str(r.config["grows"])], r.metric): r.number
        for r in results.of("complexity")
    }
    rows = []
    for layer in LAYERS:
        cells = [
            f"{_exponent(found, layer, letter, 'operations')} "
            f"({_exponent(found, layer, letter, 'seconds')})"
            for letter in SWEEPS
        ]
        rows.append([layer, FORMULAS[layer], *cells])
    return markdown(("layer", "formula", *(f"grows in {letter}" for letter in SWEEPS)), rows)


def _exponent(found: dict[tuple[object, ...], float], layer: str, letter: str, metric: str) -> str:
    sizes = [size for size in SWEEPS[letter] if (layer, letter, size, metric) in found]
    if len(sizes) < 2:
        return NONE
    small, large = (found[layer, letter, size, metric] for size in sizes[-2:])
    return f"{log(large / small) / log(sizes[-1] / sizes[-2]):.2f}"


def runtime_table(results: Results) -> str:
    """Seconds an epoch by length: the mean of three passes."""
    records = results.of("runtime")
    lengths = sorted({int(str(r.config["text.max_words"])) for r in records})
    groups = dict.fromkeys((r.dataset, r.device, r.model) for r in records)
    rows = []
    for dataset, device, model in groups:
        times = {
            r.config["text.max_words"]: float(np.mean(np.array(r.value, float)))
            for r in records
            if (r.dataset, r.device, r.model) == (dataset, device, model)
        }
        shown = [f"{times[words]:.2f}" if words in times else NONE for words in lengths]
        rows.append([f"{dataset}, {title(model)}, {device}", *shown])
    return markdown(("seconds an epoch", *(f"{words} words" for words in lengths)), rows)


def keywords_table(results: Results) -> str:
    """The most attended words of the paper's four classes, by the paper, by us, with τ."""
    rows = []
    for (dataset, label), words in KEYWORDS.items():
        cells = []
        for config in ({}, {"model.initial_temperature": 8.0}):
            found = [
                r.value
                for r in results.of("keywords")
                if (r.dataset, r.metric) == (dataset, f"top words of {label}")
                and r.changed == config
            ]
            cells.append(" ".join(_first(found[0], 10)) if found else NONE)
        rows.append([f"{heading(dataset)}: {label}", words, *cells])
    return markdown(("class", "paper", "as in the paper", "with temperature"), rows, words=4)


def _first(value: Value, count: int) -> list[str]:
    return [str(word) for word in value[:count]] if isinstance(value, list) else []
