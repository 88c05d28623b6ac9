"""The texts of a source that a model may be scored on: those that it did not learn from."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lamatext.data.cache import fingerprint
from lamatext.data.corpus import Corpus
from lamatext.data.inputs import label_array, text_column
from lamatext.data.sources import find_test, load
from lamatext.errors import DataError
from lamatext.folder import load_config, recipe_of
from lamatext.jobs import split_parts


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Texts to score, and what is known of those that were learnt from."""

    texts: Corpus
    train: Corpus | None  # the source's training part, where there is one
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
    whole = read()
    data = config.get("data", {})
    if "test_texts" in data and whole.labels is not None:
        try:
            parts = split_parts(whole, None, None, recipe_of(folder, config))
        except DataError:  # too few texts to hold any out: these are others
            return HeldOut(whole, None, f"{len(whole):,} texts")
        if _fingerprint(parts.train) == data.get("fingerprint"):
            told = f"the {len(parts.test):,} texts that were held out when the model was trained"
            return HeldOut(parts.test, parts.train, told)
    if _fingerprint(whole) == data.get("fingerprint"):
        told = f"{len(whole):,} texts that the model has LEARNT FROM: scores on them mean little"
        return HeldOut(whole, whole, told)
    return HeldOut(whole, None, f"{len(whole):,} texts")


def _fingerprint(corpus: Corpus) -> str:
    """As a saved model keeps it of its training texts."""
    texts = text_column(corpus.texts)
    if corpus.labels is None:
        return ""
    return fingerprint(texts, label_array(corpus.labels, len(texts)).astype(str))
