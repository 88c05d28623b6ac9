"""A saved model as the page's JavaScript reads it: a description, and its tensors as they lie."""

from pathlib import Path
from typing import Any

from lamatext.errors import ModelError
from lamatext.ngrams.model import ngram_specs
from lamatext.saved.format import VOCAB, WEIGHTS, load_config, ngrams_file, saved_recipe
from lamatext.saved.onnx_export import WITHOUT_GRAPH
from lamatext.settings import NgramSettings

SETTINGS = ("name", "heads", "rank", "score_input", "score_tanh", "score_l2")


def describe(folder: Path) -> dict[str, Any]:
    """All that the page must know of a model beside its tensors.

    Raises:
        ModelError: the model is one that JavaScript cannot run.
    """
    config = load_config(folder)
    recipe = saved_recipe(folder, config)
    model, text = recipe.model, recipe.text
    if model.name in WITHOUT_GRAPH:
        raise ModelError(
            f"{folder}: {model.name} is too large to run in a page alone. "
            f"Use `lamatext serve {folder}`, or train one of the light systems."
        )
    if text.tokenizer != "words":
        raise ModelError(
            f"{folder}: its texts are cut by {text.tokenizer}, which does not run in a page. "
            f"Use `lamatext serve {folder}`, or train with --set text.tokenizer=words."
        )
    words = (folder / VOCAB).read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]
    return {
        "labels": config["labels"],
        "settings": model.model_dump(include=set(SETTINGS)),
        "text": text.model_dump(include={"lowercase", "rare_words", "max_words", "last_words"}),
        "words": words,
        "ngrams": ngram_blocks(recipe.ngrams) if ngrams_file(folder).is_file() else None,
        "bytes": (folder / WEIGHTS).stat().st_size,
    }


def runs_in_page(folder: Path) -> bool:
    """Whether JavaScript can run the model."""
    try:
        return bool(describe(folder))
    except ModelError:
        return False


def ngram_blocks(settings: NgramSettings) -> list[dict[str, Any]]:
    """Which n-grams each block of the n-gram model has: runs of words, or of characters."""
    return [{"words": spec.words, "characters": spec.chars} for spec in ngram_specs(settings)]
