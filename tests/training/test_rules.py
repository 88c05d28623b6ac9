from lamatext.config import load_recipe
from lamatext.training.rules import settle


def test_nothing_is_left_to_auto() -> None:
    settled = settle(load_recipe("default"), rows=5_000, words=100_000)

    assert "auto" not in settled.model_dump_json()


def test_short_texts_are_read_by_their_characters_too() -> None:
    default = load_recipe("default")

    assert settle(default, rows=1_000, words=50_000).wide.characters is True
    assert settle(default, rows=1_000, words=51_000).wide.characters is False


def test_epochs_fall_as_words_grow_and_rise_where_steps_are_few() -> None:
    default = load_recipe("default")
    sizes = [
        (100, 2_000),
        (7_000, 150_000),
        (20_000, 1_200_000),
        (25_000, 6_000_000),
        (10**6, 10**8),
    ]

    epochs = [settle(default, rows=rows, words=words).training.epochs for rows, words in sizes]

    assert epochs == [60, 12, 7, 6, 2]


def test_what_a_recipe_states_is_left_as_it_is() -> None:
    stated = load_recipe("paper")

    settled = settle(stated, rows=10, words=100)

    assert settled.training == stated.training
    assert settled.text == stated.text
