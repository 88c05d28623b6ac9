import pytest

from lamatext.recipes import load_recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings


def facts(rows: int, words: int, *, once: int = 0, classes: int = 2) -> DatasetSize:
    return DatasetSize(rows, words, once, classes)


def test_nothing_is_left_to_auto() -> None:
    settled = resolve_auto_settings(load_recipe("default"), facts(5_000, 100_000))

    assert "auto" not in settled.model_dump_json()


def test_texts_without_a_word_settle_too() -> None:
    settled = resolve_auto_settings(load_recipe("default"), facts(5, 0))

    assert "auto" not in settled.model_dump_json()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (facts(1_000, 50_000), True),  # short
        (facts(1_000, 51_000), False),
        (facts(1_000, 100_000, once=2_000), True),  # many of the words are new
        (facts(1_000, 100_000, once=1_999), False),
        (facts(1_000, 100_000, classes=5), True),  # few texts a class
        (facts(1_000, 100_000, classes=4), False),
        (facts(10**6, 5_000_000), True),
        (facts(10**6, 5_000_001, once=10**6, classes=10**5), False),  # too many to learn from
    ],
)
def test_words_that_are_seen_too_seldom_are_read_by_their_characters(
    given: DatasetSize, read: bool
) -> None:
    assert resolve_auto_settings(load_recipe("default"), given).ngrams.characters is read


def test_epochs_fall_as_words_grow_and_rise_where_steps_are_few() -> None:
    default = load_recipe("default")
    sizes = [
        (100, 2_000),
        (7_000, 150_000),
        (20_000, 1_200_000),
        (25_000, 6_000_000),
        (10**6, 10**8),
    ]

    epochs = [
        resolve_auto_settings(default, facts(rows, words)).training.epochs for rows, words in sizes
    ]

    assert epochs == [60, 12, 7, 6, 2]


def test_what_a_recipe_states_is_left_as_it_is() -> None:
    stated = load_recipe("paper")

    settled = resolve_auto_settings(stated, facts(10, 100))

    assert settled.training == stated.training
    assert settled.text == stated.text
