"""Text variants: altered copies of texts, labelled by a teacher model to get more training texts.

Each variant is one of three kinds: a span of the text; half of the text joined to half of another;
or the text with some of its words dropped and some replaced by words of other texts. A variant has
no label of its own.
"""

from collections.abc import Sequence

import numpy as np

SHORTEST = 3  # words; a shorter text has no variants
CHANGED = (0.05, 0.3)  # range of the fraction of words that are dropped or replaced


def make_text_variants(texts: Sequence[str], per_text: int, seed: int) -> list[str]:
    """Create random variants of each text, to be labelled by a teacher and used for training.

    Texts of fewer than three words have no variants, so the result may have fewer than
    ``per_text * len(texts)`` variants.
    """
    generator = np.random.default_rng((seed, 15))
    words = [text.split() for text in texts]
    usable = [row for row in words if len(row) >= SHORTEST]
    if not usable:
        return []
    pool = [word for row in usable for word in row[:50]]
    variants = []
    for _ in range(per_text):
        for row in usable:
            kind = generator.integers(3)
            if kind == 0:
                variant = _span(row, generator)
            elif kind == 1:
                variant = _joined_halves(row, usable[generator.integers(len(usable))], generator)
            else:
                variant = _changed_words(row, pool, generator)
            variants.append(" ".join(variant))
    return variants


def _span(words: list[str], generator: np.random.Generator) -> list[str]:
    """Create a variant of a text by keeping a random span of at least a third of its words."""
    length = int(generator.integers(max(SHORTEST, len(words) // 3), len(words) + 1))
    start = int(generator.integers(len(words) - length + 1))
    return words[start : start + length]


def _joined_halves(words: list[str], other: list[str], generator: np.random.Generator) -> list[str]:
    """Create a text variant by joining halves of two texts in random order."""
    first, second = _half(words, generator), _half(other, generator)
    return first + second if generator.random() < 0.5 else second + first


def _half(words: list[str], generator: np.random.Generator) -> list[str]:
    middle = (len(words) + 1) // 2
    return words[:middle] if generator.random() < 0.5 else words[-middle:]


def _changed_words(words: list[str], pool: list[str], generator: np.random.Generator) -> list[str]:
    """Create a variant of a text by dropping or replacing 5 to 30 % of its words."""
    fate = generator.random(len(words))
    changed = generator.uniform(*CHANGED)
    variant = []
    for word, draw in zip(words, fate.tolist(), strict=True):
        if draw >= changed:
            variant.append(word)
        elif draw < changed / 2:
            variant.append(pool[generator.integers(len(pool))])
    return variant or words
