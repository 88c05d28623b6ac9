"""Saved models on the web page: JSON descriptions and summaries for its JavaScript."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lamatext.data.text_encoder import TextEncoder
from lamatext.errors import ModelError, number_range, percent, percent_range, plural
from lamatext.ngrams.model import ngram_specs
from lamatext.saved.format import (
    WEIGHTS,
    load_config,
    load_metrics,
    ngrams_file,
    saved_recipe,
    tokenizer_settings,
)
from lamatext.saved.model_io import load_encoder
from lamatext.saved.network_tensors import network_shapes
from lamatext.saved.onnx_export import WITHOUT_GRAPH
from lamatext.views.formatting import day

MODEL_SETTINGS = {"name", "heads", "rank", "score_input", "score_tanh", "score_l2"}
TEXT_SETTINGS = ("tokenizer_version", "lowercase", "rare_words", "max_words", "last_words")


def describe_model(folder: Path) -> dict[str, Any]:
    """Describe a saved model as JSON, so that JavaScript in a web page can run it.

    Raises:
        ModelError: the page cannot run this kind of model.
    """
    config = load_config(folder)
    recipe = saved_recipe(folder, config)
    model = recipe.model
    if model.name in WITHOUT_GRAPH:
        raise ModelError(
            f"{folder}: {model.name} is too large to run in a web page. "
            f"Use `lamatext serve {folder}`, or train one of the light systems."
        )
    if model.name in ("lama-blocks", "lama-phrases"):
        raise ModelError(
            f"{folder}: {model.name} does not run in a web page. "
            f"Use `lamatext serve {folder}`, or train lama-ctx."
        )
    text = tokenizer_settings(folder, config)
    if text["tokenizer"] != "words":
        raise ModelError(
            f"{folder}: the tokenizer {text['tokenizer']} does not run in a web page. "
            f"Use `lamatext serve {folder}`, or train with --set text.tokenizer=words."
        )
    encoder = load_encoder(folder, config, recipe)
    assert isinstance(encoder, TextEncoder)
    words = encoder.vocabulary.words
    ngrams = [
        {"words": spec.words, "characters": spec.chars} for spec in ngram_specs(recipe.ngrams)
    ]
    labels = config["labels"]
    return {
        "labels": labels,
        "thresholds": config.get("multi_label", {}).get("thresholds"),
        "settings": model.model_dump(include=MODEL_SETTINGS),
        "text": {name: text[name] for name in TEXT_SETTINGS},
        "words": list(words),
        "shapes": network_shapes(recipe, vocabulary=len(words), classes=len(labels)),
        "threshold": config.get("unsure", {}).get("threshold"),
        "labelNoise": config.get("label_noise", 0.0),
        "evidence": config.get("validation", {}).get("evidence"),
        "ngrams": ngrams if ngrams_file(folder, config) else None,
        "bytes": (folder / WEIGHTS).stat().st_size,
    }


def model_summary(folder: Path) -> dict[str, Any]:
    """Summarize a model for the web page: score, date and example texts."""
    metrics, config = load_metrics(folder), load_config(folder)
    test, facts = metrics.get("test") or {}, []
    validated = " (cross-validation)" if test.get("folds") else ""
    kind = "text" if test.get("folds") else "test text"
    count = plural(test["texts"], kind) if "texts" in test else "the test texts"
    if "micro_f1" in test:
        facts.append(
            f"Micro-F1 {test['micro_f1']:.3f}"
            f"{_interval(test, 'micro_f1', number_range)} on {count}{validated}"
        )
    elif "accuracy" in test:
        facts.append(
            f"Labels {percent(test['accuracy'])}{_interval(test, 'accuracy', percent_range)} of "
            f"{count} correctly{validated}"
        )
    if "saved" in config:
        facts.append(f"saved on {day(datetime.fromisoformat(config['saved']))}")
    return {
        "summary": " · ".join(facts),
        "examples": metrics.get("examples") or [],
        "examples_from": "training" if test.get("folds") else "test",
        **({"thresholds": config["multi_label"]["thresholds"]} if "multi_label" in config else {}),
    }


def _interval(test: Mapping[str, Any], name: str, form: Callable[[float, float], str]) -> str:
    if f"{name}_interval" not in test:
        return ""
    return f" ({form(*test[f'{name}_interval'])})"


def runs_in_page(folder: Path) -> bool:
    """Return whether JavaScript in a web page can run this saved model."""
    try:
        return bool(describe_model(folder))
    except ModelError:
        return False
