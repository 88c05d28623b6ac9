"""``lamatext info``: describe a saved model."""

import json

from rich.padding import Padding
from rich.text import Text

from lamatext.cli import options, output
from lamatext.views.formatting import one_line, percent
from lamatext.views.terminal_table import terminal_table

NAME = "info"
EXAMPLES = "lamatext info runs/reviews"


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
    name, labels = saved_recipe(model, config).model.name, config["labels"]
    console.print(
        one_line(
            f"{model}: {name}, {len(labels)} classes, {folder_size(model) / 1e6:.2f} MB, "
            f"weights in {config.get('storage')}, saved by lamatext {config.get('lamatext')}"
        ),
        end="\n\n",
        markup=False,
    )
    counts = config.get("parameters", {})
    rows = [(part, f"{count:,}") for part, count in counts.items()]
    rows.append(("total", f"{sum(counts.values()):,}"))
    console.print(terminal_table(("component", "parameters"), rows))
    for title, facts in _facts(config, metrics).items():
        console.print(f"\n{title}", markup=False)
        for key, value in facts.items():
            line = one_line(f"{key.replace('_', ' ')}: {_rounded(key, value)}")
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if not quiet:
        output.next_steps(
            output.command("predict", model, "--text", "…"),
            output.command("explain", model, "--text", "…"),
        )


def _facts(config: dict[str, object], metrics: dict[str, object]) -> dict[str, dict[str, object]]:
    facts: dict[str, dict[str, object]] = {}
    for key in ("data", "training", "unsure", "versions"):
        section = config.get(key)
        if isinstance(section, dict):
            facts[key] = {
                name: value for name, value in section.items() if not name.endswith("fingerprint")
            }
    test = metrics.get("test")
    if isinstance(test, dict):
        facts["test scores"] = {
            name: test[name]
            for name in ("accuracy", "macro_f1", "calibration_error")
            if name in test
        }
    return facts


def _rounded(name: str, value: object) -> str:
    """Format a fact about a saved model for people; ``--json`` has all digits."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_rounded(key, one)}" for key, one in value.items())
    if isinstance(value, float) and ("accuracy" in name or "error" in name):
        return percent(value)
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
