"""``lamatext info``: describe a saved model."""

import json
from typing import Any

from rich.padding import Padding
from rich.text import Text

from lamatext.cli import options, output
from lamatext.errors import number_range, percent, percent_range, plural
from lamatext.views.formatting import file_size, listed_label, one_line
from lamatext.views.terminal_table import TerminalTable

NAME = "info"
EXAMPLES = "lamatext info runs/reviews"
SCORES = {
    "accuracy": "accuracy",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "mean_average_precision": "mean average precision",
    "subset_accuracy": "subset accuracy",
    "calibration_error": "calibration error",
}
SHARES = ("threshold", "target_accuracy", "answered", "accuracy", "low", "high")  # shown in percent
SHOWN_LABELS = 20


def run(
    model: options.Model, as_json: options.Json = False, quiet: options.IsQuiet = False
) -> None:
    """Print information about a saved model: size, parameter counts, data, scores and versions."""
    from lamatext.saved.format import folder_size, load_config, load_metrics, saved_recipe

    config = load_config(model)
    metrics = load_metrics(model)
    if as_json:
        print(json.dumps({**config, "metrics": metrics, "bytes": folder_size(model)}))
        return
    console = output.out()
    name = saved_recipe(model, config).model.name
    kind = ("label", "labels") if "multi_label" in config else ("class", "classes")
    classes = plural(len(config["labels"]), *kind)
    console.print(
        one_line(
            f"{model}: {name}, {classes}, {file_size(folder_size(model))}, "
            f"weights in {config.get('storage')}, saved by lamatext {config.get('lamatext')}"
        ),
        markup=False,
    )
    labels = [listed_label(str(label)) for label in config["labels"]]
    rest = len(labels) - SHOWN_LABELS
    more = f" and {rest:,} more" if rest > 0 else ""
    console.print(Text(one_line(f"{kind[1]}: {', '.join(labels[:SHOWN_LABELS])}{more}")))
    console.print()
    counts = config.get("parameters", {})
    rows = [(part, f"{count:,}") for part, count in counts.items()]
    rows.append(("total", f"{sum(counts.values()):,}"))
    console.print(TerminalTable(("component", "parameters"), rows))
    for title, facts in _facts(config, metrics).items():
        console.print(f"\n{title}", markup=False)
        for key, value in facts.items():
            line = one_line(f"{key.replace('_', ' ')}: {_rounded(key, value)}")
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if not quiet:
        output.next_steps(
            output.command("predict", model, "--text", output.YOUR_TEXT),
            output.command("explain", model, "--text", output.YOUR_TEXT),
        )


def _facts(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, dict[str, object]]:
    from lamatext.saved.model_card import data_facts, training_facts

    facts: dict[str, dict[str, object]] = {"data": {**data_facts(config.get("data", {}))}}
    for number, ancestor in enumerate(reversed(config.get("ancestors", []))):
        name = "continues" if not number else "which continues"
        source = ancestor["data"].get("source", "unnamed data")
        described = f"the model with the hash {(ancestor['hash'] or 'unknown')[:16]}"
        facts.setdefault("ancestors", {})[name] = f"{described}, trained on {source}"
    facts["training"] = {**training_facts(config)}
    for key in ("unsure", "versions"):
        facts[key] = config.get(key) or {}
    facts["test scores"] = _scores(metrics.get("test") or {})
    facts["scores before and after the model was continued"] = {
        f"{'old' if change['is_old'] else 'new'} data, {change['data']}": (
            f"{change['metric']} {_score(change, 'before')}, then {_score(change, 'after')}"
        )
        for change in metrics.get("continuation") or []
    }
    return {title: section for title, section in facts.items() if section}


def _scores(test: dict[str, Any]) -> dict[str, object]:
    scores: dict[str, object] = {
        SCORES[name]: _score(test, name) for name in SCORES if name in test
    }
    if "texts" in test:
        scores["texts"] = test["texts"]
    if test.get("folds"):
        scores["scored by"] = f"{test['folds']}-fold cross-validation"
    return scores


def _score(section: dict[str, Any], name: str) -> str:
    is_number = "f1" in name or "precision" in name
    shown = f"{section[name]:.3f}" if is_number else percent(section[name])
    if not (interval := section.get(f"{name}_interval")):
        return shown
    ends = number_range(*interval) if is_number else percent_range(*interval)
    return f"{shown} (95 % interval {ends})"


def _rounded(name: str, value: object) -> str:
    """Format a value for the terminal output of ``lamatext info``, rounding numbers."""
    if isinstance(value, float) and name in SHARES:
        return percent(value, 2 if name == "threshold" else 1)
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
