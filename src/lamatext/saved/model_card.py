"""Model card (``README.md``) of a saved model: scores, data, size and settings in Markdown."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lamatext.data.column_detection import listed_column
from lamatext.data.read_options import source_title
from lamatext.errors import number_range, percent, percent_range, plural
from lamatext.metrics import accuracy_interval
from lamatext.settings import has_effect

SHOWN_LABELS = 20
FOLDER_PLACEHOLDER = "this folder"  # in the usage examples
_SEVERAL = "labels, of which a text may have several or none"


def model_card(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Generate the Markdown model card of a saved model from its config and metrics."""
    recipe, data = config["recipe"], config.get("data", {})
    labels = [str(label) for label in config["labels"]]
    sections = [
        _hub_metadata(config, metrics),
        f"# Text classifier: {_source(data)}",
        f"A `{recipe['model']['name']}` model of lamatext {config.get('lamatext', '')} "
        f"for {len(labels)} {'classes' if 'multi_label' not in config else _SEVERAL}: "
        f"{', '.join(map(_code, labels[:SHOWN_LABELS]))}"
        f"{' …' if len(labels) > SHOWN_LABELS else ''}.",
        _scores(metrics),
        _teacher(config),
        _ancestor(config, metrics),
        _label_noise(config.get("label_noise", 0)),
        _unsure(config.get("unsure")),
        _examples(metrics),
        _faithfulness(metrics),
        _data(data),
        _size(config),
        _training(config),
        _settings(recipe),
        _USAGE,
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _hub_metadata(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Format the YAML front matter of the model card for the Hugging Face Hub."""
    tags = ["lamatext", *(["multi-label-classification"] if "multi_label" in config else [])]
    fields: dict[str, object] = {
        "library_name": "lamatext",
        "pipeline_tag": "text-classification",
        "tags": tags,
    }
    source, test = _source(config.get("data", {})), metrics.get("test") or {}
    scores = [
        {"type": kind, "name": title, "value": test[name]}
        for name, (kind, title) in _HUB_METRICS.items()
        if name in test
    ]
    split = f"{_folds(metrics)}-fold cross-validation" if _folds(metrics) else "test"
    if scores:
        result = {
            "task": {"type": "text-classification"},
            "dataset": {"type": "text", "name": source, "split": split},
            "metrics": scores,
        }
        fields["metrics"] = sorted({str(score["type"]) for score in scores})
        fields["model-index"] = [{"name": source, "results": [result]}]
    lines = (f"{name}: {json.dumps(value)}" for name, value in fields.items())
    return "\n".join(["---", *lines, "---"])


_HUB_METRICS = {
    "accuracy": ("accuracy", "accuracy"),
    "macro_f1": ("f1", "macro-F1"),
    "micro_f1": ("f1", "micro-F1"),
}


def _source(data: Mapping[str, Any]) -> str:
    return source_title(str(data.get("source") or "unnamed data"))


def _scores(metrics: Mapping[str, Any]) -> str:
    rows = metrics.get("leaderboard")
    if not rows:
        return ""
    tested = "trained and tested on the same texts"
    if _folds(metrics):
        tested = f"scored by {_folds(metrics)}-fold cross-validation on the same texts"
    lines = ["## Scores", "", f"All models were {tested}:", ""]
    columns = {"accuracy": "accuracy", "macro-F1": "macro_f1"}
    if "micro_f1" in rows[0]:
        columns = {
            "micro-F1": "micro_f1",
            "macro-F1": "macro_f1",
            "mean average precision": "mean_average_precision",
            "subset accuracy": "accuracy",
            "Hamming loss": "hamming_loss",
        }
    texts = (metrics.get("test") or {}).get("texts", 0)
    title, main = next(iter(columns.items()))
    titles = [*columns, *([f"95 % interval of the {title}"] if texts else []), "size", "texts/s"]
    lines += [f"| model | {' | '.join(titles)} |", f"|---|{'--:|' * len(titles)}"]
    for row in rows:
        cells = [_score(name, row.get(name, 0)) for name in columns.values()]
        if texts:
            interval = accuracy_interval(row["accuracy"], texts, _folds(metrics))
            if "micro_f1" in row:
                interval = row.get("micro_f1_interval")
            cells.append("unknown" if interval is None else _interval(main, interval))
        cells += [f"{row['bytes'] / 1e6:.1f} MB", f"{row['texts_per_second']:,.0f}"]
        lines.append(f"| {row['model']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _score(name: str, value: float) -> str:
    """Format a score in the model card: accuracy in percent, all others as fractions."""
    return percent(value) if name == "accuracy" else f"{value:.3f}"


def _interval(name: str, interval: Iterable[float]) -> str:
    low, high = interval
    return percent_range(low, high) if name == "accuracy" else number_range(low, high)


def _folds(metrics: Mapping[str, Any]) -> int:
    return int((metrics.get("test") or {}).get("folds", 0))


def _teacher(config: Mapping[str, Any]) -> str:
    teacher = config.get("teacher")
    if not teacher:
        return ""
    own, its = (part.get("validation_accuracy") for part in (config.get("training", {}), teacher))
    licence = teacher.get("licence")
    several = teacher.get("teachers", 1)
    how = f", fine-tuned {several} times and averaged" if several > 1 else ""
    lines = [
        f"It learned from {_code(str(teacher.get('name', '')))}"
        f" ({f'licence {licence}' if licence else 'see there for its licence'}){how}, which "
        "labelled the training texts, "
        f"{config.get('data', {}).get('unlabelled_texts', 0)} unlabelled texts and variants of "
        f"them, up to {teacher.get('variants', 0)} per text."
    ]
    if isinstance(own, float) and isinstance(its, float):
        metric = "mean average precision" if "multi_label" in config else "accuracy"
        scores = f"{_score(metric, own)}, its teacher's {_score(metric, its)}"
        lines.append(f"On the validation texts its {metric} is {scores}.")
    return "## Its teacher\n\n" + " ".join(lines)


def _ancestor(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    ancestors = config.get("ancestors")
    if not ancestors:
        return ""
    parent = ancestors[-1]
    parent_hash = (parent["hash"] or "unknown")[:16]
    lines = [
        "## Its ancestor",
        "",
        f"Its training continued the model with the hash {_code(parent_hash)}, "
        f"trained on {_code(_source(parent['data']))}.",
    ]
    changes = metrics.get("continuation") or []
    if changes:
        lines += ["", "| test data | score | before | after |", "|---|---|--:|--:|"]
    lines += [
        f"| {'old' if change['is_old'] else 'new'}: {_plain(source_title(change['data']))}, "
        f"{plural(change['texts'], 'text')} | {_plain(change['metric'])} "
        f"| {_with_interval(change, 'before')} | {_with_interval(change, 'after')} |"
        for change in changes
    ]
    return "\n".join(lines)


def _with_interval(change: Mapping[str, Any], when: str) -> str:
    metric = change["metric"]
    return f"{_score(metric, change[when])} ({_interval(metric, change[f'{when}_interval'])})"


def _label_noise(noise: float) -> str:
    if not noise:
        return ""
    return (
        "## Wrong labels\n\n"
        f"About {percent(noise, 0)} of the labels of its training texts look wrong. It learned "
        "less from those. Its probabilities predict labels that are wrong just as often, so none "
        f"is above {percent(1 - noise, 0)}. List the suspects with `lamatext clean`, correct them "
        "and train again."
    )


def _unsure(unsure: Mapping[str, float] | None) -> str:
    if not unsure:
        return ""
    return (
        "## When it is unsure\n\n"
        f"Below a probability of {percent(unsure['threshold'], 2)} it is unsure. On "
        f"{plural(int(unsure['texts']), 'text')} it answered {percent(unsure['answered'])}, with "
        f"an accuracy of {percent(unsure['accuracy'])} (95 % interval "
        f"{percent_range(unsure['low'], unsure['high'])})."
    )


def _examples(metrics: Mapping[str, Any]) -> str:
    examples = metrics.get("examples")
    if not examples:
        return ""
    origin = "training data" if _folds(metrics) else "test set"
    lines = ["## Examples", "", f"Texts of the {origin}, with their true labels:", ""]
    lines += [f"- {_plain(one['text'])} ({_code(one['label'])})" for one in examples]
    return "\n".join(lines)


def _faithfulness(metrics: Mapping[str, Any]) -> str:
    faithfulness = metrics.get("faithfulness")
    if not faithfulness:
        return ""
    verdict = _plain(faithfulness["verdict"])
    measured = f"Measured on {plural(faithfulness['texts'], 'text')}."
    return f"## Are its explanations faithful?\n\n{verdict} {measured}"


def _data(data: Mapping[str, Any]) -> str:
    if not data:
        return ""
    sources = {
        key: source_title(str(data[key])) for key in ("source", "test_source") if data.get(key)
    }
    facts = (
        f"- {name}: {_plain(value)}" for name, value in data_facts({**data, **sources}).items()
    )
    return "\n".join(["## Data", "", *facts])


_DATA_NAMES = {
    "left_out_rows": "rows that --without left out",
    "moved_rows": "rows not for testing, because the continued model was trained on them",
}


def data_facts(data: Mapping[str, Any]) -> dict[str, str]:
    """Describe the training data as names and values for the model card and ``lamatext info``.

    Fingerprints and values that are 0 or empty are omitted.
    """
    layout, numbers = data.get("layout") or {}, dict[str, object]()
    for name, value in data.items():
        is_omitted = name.endswith("fingerprint") or name in ("layout", "lesson", "folds", "sketch")
        is_repeated = name == "texts" and "training_texts" in data
        if value and not (is_omitted or is_repeated):
            count = len(value) if isinstance(value, list) else value
            numbers[_DATA_NAMES.get(name, name.replace("_", " "))] = (
                f"{count:,}" if isinstance(count, int) else count
            )
    is_held_out = data.get("test_texts") and not data.get("validation_texts")
    if is_held_out and "training texts" in numbers:
        numbers["training texts"] = f"{numbers['training texts']}, some of them for validation"
    if data.get("folds"):
        numbers["scored by"] = f"{data['folds']}-fold cross-validation"
    for part in ("text", "label"):
        columns = layout.get(f"{part}_columns", [])
        if columns:
            numbers[f"column{'s' if len(columns) > 1 else ''} of the {part}s"] = ", ".join(
                map(listed_column, columns)
            )
    details = {
        "label separator": layout.get("label_separator"),
        "labels that differ only in case or spaces": layout.get("merge_labels") and "merged",
        "group column": layout.get("group_column"),
        "time column": layout.get("time_column"),
        "format": layout.get("format"),
        "encoding": layout.get("encoding"),
    }
    return {name: str(value) for name, value in (numbers | details).items() if value}


def _size(config: Mapping[str, Any]) -> str:
    counts = config.get("parameters")
    if not counts:
        return ""
    lines = ["## Size", "", "| component | parameters |", "|---|--:|"]
    lines += [f"| {component} | {count:,} |" for component, count in counts.items()]
    lines.append(f"| total | {sum(counts.values()):,} |")
    return "\n".join(lines)


def _training(config: Mapping[str, Any]) -> str:
    facts = training_facts(config)
    return "\n".join(
        ["## Training", "", *(f"- {k}: {v}" for k, v in facts.items())] if facts else []
    )


def training_facts(config: Mapping[str, Any]) -> dict[str, str]:
    """Describe the training run as names and values for the model card and ``lamatext info``."""
    training, facts = config.get("training") or {}, dict[str, str]()
    name = "mean average precision" if "multi_label" in config else "accuracy"
    if "validation_accuracy" in training:
        facts[f"validation {name}"] = _score(name, training["validation_accuracy"])
    scales = training.get("scales", {})
    uses_network = scales.get("network", 1) != 0
    if len(scales) > 1:
        alone = "n-grams alone (the network has weight 0)"
        facts["decides by"] = "n-grams and network" if uses_network else alone
    if "best_epoch" in training and uses_network:
        facts["best epoch of the network"] = f"{training['best_epoch']:,}"
    if "seconds" in training:
        facts["training time of the network"] = f"{training['seconds']:,.1f} s"
    return facts


def _settings(recipe: Mapping[str, Any]) -> str:
    lines = ["## Settings", "", "| setting | value |", "|---|---|"]
    for table in ("text", "model", "training", "ngrams"):
        lines += [
            f"| {table}.{name} | {_plain(value)} |"
            for name, value in recipe[table].items()
            if has_effect(f"{table}.{name}", recipe["model"]["name"])
        ]
    lines.append(f"| seed | {recipe['seed']} |")
    return "\n".join(lines)


def _code(value: object) -> str:
    """Format a value as a Markdown code span for the model card, even if it contains backticks.

    If its spaces would not show, it is quoted.
    """
    text = str(value)
    if text != " ".join(text.split()) or not text:
        text = repr(text)
    ticks = "`"
    while ticks in text:
        ticks += "`"
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _plain(value: object) -> str:
    """Format a value as one line of the model card, with its Markdown characters escaped."""
    text = " ".join(str(value).split())
    return "".join(_ESCAPED.get(character, character) for character in text)


_ESCAPED = {character: f"\\{character}" for character in "\\`|[]*_#"} | {
    "<": "&#60;",
    ">": "&#62;",
}

_USAGE = f"""## How to use it

```python
from lamatext import Predictor

model = Predictor.load("{FOLDER_PLACEHOLDER}")
model.predict(["a text to classify"])
model.explain("a text to classify")
```

```sh
lamatext predict "{FOLDER_PLACEHOLDER}" --text "a text to classify"
lamatext explain "{FOLDER_PLACEHOLDER}" --text "a text to classify"
```"""
