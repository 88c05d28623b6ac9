"""Auto settings: replace every ``auto`` in a recipe with a value that suits the size of the data.

The rules depend on the number of texts, words and classes, never on the name of a dataset.
"""

from typing import NamedTuple

import numpy as np

from lamatext.settings import Recipe

SHORT_TEXT = 50  # mean words per text, up to which character n-grams help
UNSEEN_WORDS = 0.02  # fraction of unseen words expected in a new text, from which they also help
FEW_TEXTS_PER_CLASS = 250  # texts per class, below which they also help, unless
ALL_WORDS_SEEN = 0.01  # less than this fraction of the words in a new text will be unseen
MANY_WORDS = 5_000_000  # above this, character n-grams need gigabytes of memory
MEGABYTES = 6.0  # of n-grams
EXTRA_WORD_MEGABYTES = 1e-4  # of a word that the training texts lack; n-grams leave room for it
LABEL_MEGABYTES = 0.2  # of n-grams per label; rare labels are recognized by rare n-grams
FEW_TEXTS = 10_000
MANY_TEXTS = 200_000  # from this number on, large mini-batches learn as much in less time
FEW_WORDS = 2_000_000
STEPS = 1_500  # training steps that a network needs; more hardly improve it
MIN_STEPS = 500  # training steps at least, unless that takes more than 30 epochs


class DatasetSize(NamedTuple):
    """Size statistics of the training texts, used to resolve ``auto`` settings."""

    texts: int
    words: int  # in all texts together
    words_seen_once: int  # distinct words that occur exactly once
    classes: int
    multi_label: bool = False  # whether a text may have several labels


def resolve_auto_settings(recipe: Recipe, size: DatasetSize) -> Recipe:
    """Replace every ``auto`` setting of a recipe with a value that suits the dataset size."""
    texts, words = size.texts, max(1, size.words)
    values: dict[str, object] = {}
    if recipe.text.min_count == "auto":
        values["text.min_count"] = 2 if words < FEW_WORDS else 5
    if recipe.ngrams.characters == "auto":
        values["ngrams.characters"] = _use_characters(size)
    if recipe.ngrams.max_megabytes == "auto":
        per_label = LABEL_MEGABYTES * size.classes if size.multi_label else 0.0
        extra = min(MEGABYTES / 3, EXTRA_WORD_MEGABYTES * recipe.text.added_words)
        values["ngrams.max_megabytes"] = max(MEGABYTES - extra, per_label)
    batch_size = recipe.training.batch_size
    if batch_size == "auto":
        batch_size = 32 if texts < FEW_TEXTS else 64 if texts < MANY_TEXTS else 256
        values["training.batch_size"] = batch_size
    if recipe.distillation.variants == "auto":  # a teacher would have decided
        values["distillation.variants"] = 0
    if recipe.distillation.teachers == "auto":
        values["distillation.teachers"] = 1
    if recipe.training.epochs == "auto":
        values["training.epochs"] = _epochs(texts, batch_size)
    return recipe.with_values(values, where="auto")


def _use_characters(size: DatasetSize) -> bool:
    """Resolve ``ngrams.characters = "auto"``: True if texts are short or many words are rare.

    The fraction of words seen once estimates the fraction of unseen words in a new text
    (Good 1953, after Turing). This fraction is tiny for Thai, where a word is a letter with its
    vowels. If a text may have several labels, most labels have far fewer texts than the average
    label, so parts of words help even if few words are unseen.
    """
    texts, words, words_seen_once, classes, multi_label = size
    has_unseen_words = multi_label or words_seen_once >= ALL_WORDS_SEEN * words
    rare = (
        words <= SHORT_TEXT * texts
        or words_seen_once >= UNSEEN_WORDS * words
        or (texts < FEW_TEXTS_PER_CLASS * classes and has_unseen_words)
    )
    return rare and words <= MANY_WORDS


def _epochs(texts: int, batch_size: int) -> int:
    """Resolve ``training.epochs = "auto"`` so that the network gets enough training steps.

    A network needs about ``STEPS`` steps, which are spread over 2 to 6 epochs. If 6 epochs have
    fewer than ``MIN_STEPS`` steps, there are more epochs, but never more than 30.
    """
    steps = max(1, -(-texts // batch_size))  # in an epoch
    usual = int(np.clip(-(-STEPS // steps), 2, 6))
    return max(usual, min(30, -(-MIN_STEPS // steps)))
