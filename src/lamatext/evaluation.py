"""The texts of a source that a model may be scored on: those that it did not learn from."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset
from lamatext.data.sources import find_test, load
from lamatext.data.validation import label_array, text_column
from lamatext.pipeline import Parts, split_parts
from lamatext.saved.format import Facts, load_config, recipe_of
from lamatext.settings import Recipe


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Texts to score, and what is known of those that were learnt from."""

    texts: Dataset
    train: Dataset | None  # the source's training part, where there is one
    about: str  # which texts these are, in a few words


def held_out(folder: Path, source: str, **reading: Any) -> HeldOut:
    """The test part of ``source``; or the tenth that was held out when the model was trained on it.

    A source without either is taken whole. ``reading`` goes to ``load``.
    """
    config = load_config(folder)
    read = partial(load, source, **reading)
    if find_test(source):
        test = read(split="test")
        return HeldOut(test, read(), f"its test part, {len(test):,} texts")
    whole, known = read(), config.get("data", {}).get("fingerprint")
    parts = _parts_again(whole, config, recipe_of(folder, config))
    if parts is not None and _fingerprint(parts.train) == known:
        told = f"the {len(parts.test):,} texts that were held out when the model was trained"
        return HeldOut(parts.test, parts.train, told)
    if _fingerprint(whole) == known:
        told = f"{len(whole):,} texts that the model has LEARNT FROM: scores on them mean little"
        return HeldOut(whole, whole, told)
    return HeldOut(whole, None, f"{len(whole):,} texts")


def _parts_again(whole: Dataset, config: Facts, recipe: Recipe) -> Parts | None:
    """The parts that training made of as many texts; the seed makes the same of the same texts."""
    data = config.get("data", {})
    counts = [data.get(f"{part}_texts", 0) for part in ("training", "test", "validation")]
    if whole.labels is None or not counts[1]:
        return None
    if len(whole) == sum(counts):
        return split_parts(whole, None, None, recipe)
    if len(whole) == sum(counts[:2]):  # texts to stop by came from elsewhere
        return split_parts(whole, whole, None, recipe)
    return None


def _fingerprint(corpus: Dataset) -> str:
    """As a saved model keeps it of its training texts."""
    texts = text_column(corpus.texts)
    if corpus.labels is None:
        return ""
    return fingerprint(texts, label_array(corpus.labels, len(texts)).astype(str))
