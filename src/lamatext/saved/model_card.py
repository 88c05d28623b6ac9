"""The model card: what a person should know of a saved model, in Markdown."""

from collections.abc import Mapping
from typing import Any

from lamatext.settings import has_effect


def model_card(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """The README.md of a saved model."""
    recipe, data = config["recipe"], config.get("data", {})
    labels = [str(label) for label in config["labels"]]
    sections = [
        f"# A text classifier: {data.get('source', 'unnamed data')}",
        f"A `{recipe['model']['name']}` model of lamatext "
        f"{config['lamatext']} that tells {len(labels)} classes apart: "
        f"{', '.join(map(_code, labels[:20]))}"
        f"{' …' if len(labels) > 20 else ''}.",
        _scores(metrics),
        _reasons(metrics),
        _data(data),
        _size(config),
        _settings(recipe, config.get("training", {})),
        _USE,
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _scores(metrics: Mapping[str, Any]) -> str:
    rows = metrics.get("leaderboard")
    if not rows:
        return ""
    lines = ["## Scores", "", "On the same test texts, trained on the same texts:", ""]
    lines += ["| model | accuracy | macro-F1 | size | texts/s |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| {row['model']} | {row['accuracy']:.4f} | {row['macro_f1']:.4f} "
        f"| {row['bytes'] / 1e6:.1f} MB | {row['texts_per_second']:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def _reasons(metrics: Mapping[str, Any]) -> str:
    """How far its explanations were found to hold."""
    found = metrics.get("faithfulness")
    if not found:
        return ""
    told = f"{_plain(found['verdict'])} Measured on {found['texts']} texts."
    return f"## Can its reasons be trusted?\n\n{told}"


def _data(data: Mapping[str, Any]) -> str:
    if not data:
        return ""
    lines = ["## Data", ""]
    lines += [
        f"- {name.replace('_', ' ')}: {_plain(value)}"
        for name, value in data.items()
        if not isinstance(value, (dict, list))
    ]
    return "\n".join(lines)


def _size(config: Mapping[str, Any]) -> str:
    counts = config.get("parameters")
    if not counts:
        return ""
    lines = ["## Size", "", "| component | parameters |", "|---|--:|"]
    lines += [f"| {part} | {count:,} |" for part, count in counts.items()]
    lines.append(f"| together | {sum(counts.values()):,} |")
    return "\n".join(lines)


def _settings(recipe: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    lines = ["## Settings", "", "| setting | value |", "|---|---|"]
    for table in ("text", "model", "training", "ngrams"):
        lines += [
            f"| {table}.{name} | {_plain(value)} |"
            for name, value in recipe[table].items()
            if has_effect(f"{table}.{name}", recipe["model"]["name"])
        ]
    lines.append(f"| seed | {recipe['seed']} |")
    if training:
        lines += ["", f"Best epoch {training['best_epoch']}, validation accuracy "
                  f"{training['validation_accuracy']:.4f}."]  # fmt: skip
    return "\n".join(lines)


def _code(value: object) -> str:
    """A span of code that shows the value as it is: its ticks are more than any in the value."""
    text = " ".join(str(value).split()) or " "
    ticks = "`"
    while ticks in text:
        ticks += "`"
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _plain(value: object) -> str:
    """One line of Markdown that shows the value and nothing else."""
    text = " ".join(str(value).split())
    return "".join(_ESCAPED.get(sign, sign) for sign in text)


_ESCAPED = {sign: f"\\{sign}" for sign in "\\`|[]*_#"} | {"<": "&#60;", ">": "&#62;"}


_USE = """## How to use it

```python
from lamatext import Predictor

model = Predictor.load("this folder")
model.predict(["a text to classify"])
model.explain("a text to classify")
```

```sh
lamatext predict "this folder" --text "a text to classify"
lamatext explain "this folder" --text "a text to classify"
```"""
