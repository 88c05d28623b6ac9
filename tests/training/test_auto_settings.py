import pytest

from lamatext.recipes import load_recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings


def facts(
    rows: int, words: int, *, once: int = 0, classes: int = 2, multi_label: bool = False
) -> DatasetSize:
    return DatasetSize(rows, words, once, classes, multi_label)


def test_every_auto_setting_is_resolved() -> None:
    settled = resolve_auto_settings(load_recipe("default"), facts(5_000, 100_000))

    assert "auto" not in settled.model_dump_json()


def test_texts_without_words_are_resolved_too() -> None:
    settled = resolve_auto_settings(load_recipe("default"), facts(5, 0))

    assert "auto" not in settled.model_dump_json()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (facts(1_000, 50_000), True),  # short
        (facts(1_000, 51_000), False),
        (facts(1_000, 100_000, once=2_000), True),  # many of the words are new
        (facts(1_000, 100_000, once=1_999), False),
        (facts(1_000, 100_000, once=1_000, classes=5), True),  # few texts per class
        (facts(1_000, 100_000, once=999, classes=5), False),  # but hardly a word is new
        (facts(1_000, 100_000, classes=5, multi_label=True), True),  # most labels are rare
        (facts(1_000, 100_000, once=1_000, classes=4), False),
        (facts(1_000, 100_000, once=1_000, classes=4, multi_label=True), False),
        (facts(10**6, 5_000_000), True),
        (facts(10**6, 5_000_001, once=10**6, classes=10**5), False),  # too many to learn from
    ],
)
def test_character_ngrams_are_enabled_where_words_are_rare(given: DatasetSize, read: bool) -> None:
    assert resolve_auto_settings(load_recipe("default"), given).ngrams.characters is read


def test_epochs_fall_with_more_steps_and_rise_with_few() -> None:
    default = load_recipe("default")
    sizes = (100, 500, 2_000, 7_000, 20_000, 25_000, 72_000, 10**6)

    epochs = [
        resolve_auto_settings(default, facts(texts, 20 * texts)).training.epochs for texts in sizes
    ]

    assert epochs == [30, 30, 8, 6, 5, 4, 2, 2]


@pytest.mark.parametrize(
    ("texts", "batch_size"), [(9_999, 32), (10_000, 64), (199_999, 64), (200_000, 256)]
)
def test_mini_batches_grow_with_the_texts(texts: int, batch_size: int) -> None:
    recipe = resolve_auto_settings(load_recipe("default"), DatasetSize(texts, 20 * texts, 0, 4))

    assert recipe.training.batch_size == batch_size


def test_settings_with_a_value_are_not_changed() -> None:
    stated = load_recipe("paper")

    settled = resolve_auto_settings(stated, facts(10, 100))

    assert settled.training == stated.training
    assert settled.text == stated.text
