"""Settings and recipes: what they take, and what they say to what they do not."""

from pathlib import Path

import pytest

from lamatext.errors import ConfigError
from lamatext.recipes import load_recipe, parse_assignments, recipe_names, resolve_recipe
from lamatext.settings import MODEL_NAMES, Recipe, setting_names


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_recipe_file_states_only_what_differs(tmp_path: Path) -> None:
    name = write(tmp_path, "mine.toml", 'extends = "paper"\n[model]\nheads = 3\n')

    recipe, paper = load_recipe(name), load_recipe("paper")

    assert recipe == paper.with_values({"model.heads": 3})
    assert recipe != paper


def test_a_recipe_may_extend_the_file_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "base.toml", "seed = 5\n[model]\nheads = 3\nrank = 2\n")
    name = write(tmp_path, "top.toml", 'extends = "base.toml"\n[model]\nheads = 4\n')

    recipe = load_recipe(name)

    assert (recipe.seed, recipe.model.heads, recipe.model.rank) == (5, 4, 2)


def test_a_recipe_that_extends_itself_is_refused(tmp_path: Path) -> None:
    name = write(tmp_path, "one.toml", 'extends = "two.toml"\n')
    write(tmp_path, "two.toml", 'extends = "one.toml"\n')

    with pytest.raises(ConfigError, match=r"one\.toml: extends itself"):
        load_recipe(name)


HOSTILE_TOML = ("[model\n", f"a = {'9' * 5000}", f"a = {'[' * 4000}", "a = 1979-13-32")


@pytest.mark.parametrize("text", HOSTILE_TOML)
def test_broken_toml_is_named(text: str, tmp_path: Path) -> None:
    name = write(tmp_path, "broken.toml", text)

    with pytest.raises(ConfigError, match=r"broken\.toml: not valid TOML"):
        load_recipe(name)


def test_a_missing_file_and_an_unknown_name_are_told_apart() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: no such recipe file"):
        load_recipe("nowhere.toml")
    with pytest.raises(ConfigError, match=r"unknown recipe 'papr'\. Did you mean paper\? Known: "):
        load_recipe("papr")


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_another_model_replaces_the_network_and_leaves_training_and_ngrams_alone(
    model: str,
) -> None:
    default, papers = load_recipe("default"), load_recipe(f"paper/{model}")

    recipe = resolve_recipe(model=model)

    assert recipe.model.name == model
    assert recipe.model.disagreement_weight == papers.model.disagreement_weight
    assert recipe.text.min_count == default.text.min_count
    assert recipe.ngrams == default.ngrams
    if model != "bert":
        assert recipe.training == default.training


def test_a_transformer_brings_its_embedding_width_to_another_recipe() -> None:
    text = resolve_recipe(model="te").text

    assert (text.vector_width, text.word_vectors, text.max_words) == (512, "random", 512)


def test_bert_brings_its_optimizer_settings_to_another_recipe() -> None:
    training = resolve_recipe(model="bert").training

    assert (training.optimizer, training.learning_rate, training.epochs) == ("adam", 5e-6, 2)


def test_naming_the_recipes_own_model_changes_nothing(tmp_path: Path) -> None:
    text = 'extends = "paper/san"\n[model]\ndisagreement_weight = 0.5\n'
    name = write(tmp_path, "mine.toml", text)

    assert resolve_recipe(recipe=name, model="san") == load_recipe(name)
    assert load_recipe(name).model.disagreement_weight == 0.5


def test_an_unknown_model_gets_a_did_you_mean_hint() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'lama-ctxt'\. Did you mean lama-ctx\?"):
        resolve_recipe(model="lama-ctxt")
    with pytest.raises(ConfigError, match=r"model\.name = 'bigrue': .* Did you mean bigru\?"):
        Recipe().with_values({"model.name": "bigrue"})


def test_a_systems_bare_name_is_no_recipe_but_hints_at_the_papers() -> None:
    with pytest.raises(ConfigError, match=r"unknown recipe 'san'\. .*: paper/san\. Known: "):
        load_recipe("san")


def test_assignments_are_read_as_toml_and_otherwise_as_text() -> None:
    pairs = [
        "model.heads=8",
        "training.learning_rate = 5e-3",
        "model.score_tanh=false",
        "model.name=te",
        "text.word_vectors=glove.txt",
        "training.gradient_clip=none",
        'training.class_weight={spam = 2.0, "no spam" = 1.0}',
        "text.word_vectors=a=b",
    ]

    assert parse_assignments(pairs) == {
        "model.heads": 8,
        "training.learning_rate": 5e-3,
        "model.score_tanh": False,
        "model.name": "te",
        "text.word_vectors": "a=b",
        "training.gradient_clip": None,
        "training.class_weight": {"spam": 2.0, "no spam": 1.0},
    }


def test_a_value_that_toml_cannot_hold_is_text() -> None:
    values = ["9" * 5000, "[" * 4000, "1979-13-32"]

    assert [parse_assignments([f"seed={text}"])["seed"] for text in values] == values


@pytest.mark.parametrize("pair", ["model.heads", "=8", " = 8"])
def test_an_assignment_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"expected key=value, for example model\.heads=8"):
        parse_assignments([pair])


def test_values_replace_settings_and_leave_the_rest() -> None:
    recipe = Recipe().with_values({"model.heads": 3, "seed": 7, "training.gradient_clip": 1.0})

    assert (recipe.model.heads, recipe.seed, recipe.training.gradient_clip) == (3, 7, 1.0)
    assert (
        recipe.with_values({"model.heads": 15, "seed": 0, "training.gradient_clip": None})
        == Recipe()
    )


def test_class_weights_can_be_replaced() -> None:
    weighted = Recipe().with_values({"training.class_weight": {"spam": 2.0}})

    again = weighted.with_values({"training.class_weight": "balanced"})

    assert weighted.training.class_weight == {"spam": 2.0}
    assert again.training.class_weight == "balanced"


@pytest.mark.parametrize(
    ("key", "guess"),
    [
        ("model.head", r"Did you mean model\.heads\?"),
        ("heads", r"Did you mean model\.heads\?"),
        ("model", ""),
        ("model.heads.more", ""),
        ("training.epoch", r"Did you mean training\.epochs\?"),
    ],
)
def test_an_unknown_setting_is_met_with_a_guess(key: str, guess: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--set: unknown setting {key}\. ?{guess}"):
        Recipe().with_values({key: 1})


def test_an_unknown_setting_in_a_file_names_the_file(tmp_path: Path) -> None:
    name = write(tmp_path, "mine.toml", "[model]\nhead = 3\n")

    with pytest.raises(ConfigError, match=r"mine\.toml: unknown setting model\.head\. Did you"):
        load_recipe(name)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.heads", 0, r"--set: model\.heads = 0: input should be greater than or equal to 1"),
        ("model.rank", 0, r"model\.rank = 0: input should be greater than or equal to 1"),
        ("model.dropout", 1.0, r"model\.dropout = 1\.0: input should be less than 1"),
        (
            "model.initial_temperature",
            0,
            r"model\.initial_temperature = 0: input should be greater than 0",
        ),
        (
            "model.disagreement_weight",
            -0.1,
            r"model\.disagreement_weight = -0\.1: input should be greater than or equal",
        ),
        (
            "training.learning_rate",
            float("nan"),
            r"training\.learning_rate = nan: input should be a finite number",
        ),
        (
            "training.validation_fraction",
            0,
            r"training\.validation_fraction = 0: input should be greater than 0",
        ),
        ("training.optimizer", "sdg", r"training\.optimizer = 'sdg': .* Did you mean sgd\?"),
        ("model.heads", "many", r"model\.heads = 'many': input should be a valid integer"),
        ("seed", -1, r"seed = -1: input should be greater than or equal to 0"),
    ],
)
def test_a_value_out_of_range_is_shown(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Recipe().with_values({key: value})


@pytest.mark.parametrize(
    ("model", "limit"), [("lama", 100), ("lama-ctx", 60), ("lama-encoder", 60)]
)
def test_a_rank_is_at_most_the_width(model: str, limit: int) -> None:
    values = {
        "model.name": model,
        "model.hidden_size": 50,
        "text.vector_width": 60,
        "model.rank": limit,
    }
    Recipe().with_values(values)

    with pytest.raises(
        ConfigError,
        match=rf"model\.rank \({limit + 1}\) must be at most {limit}, .*context \({limit}\)",
    ):
        Recipe().with_values({**values, "model.rank": limit + 1})


def test_a_transformers_width_is_divisible_by_its_heads() -> None:
    with pytest.raises(
        ConfigError, match=r"text\.vector_width \(512\) must be divisible by .* \(7\)"
    ):
        load_recipe("paper/te").with_values({"model.heads": 7})


@pytest.mark.parametrize(("words", "said"), [(None, "not set"), (513, "513")])
def test_a_transformer_reads_no_more_words_than_it_has_positions(
    words: int | None, said: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"transformer_positions is 512, but text\.max_words is {said}"
    ):
        load_recipe("paper/te").with_values({"text.max_words": words})


def test_settings_have_the_names_that_the_recipes_use() -> None:
    names = setting_names()

    assert {"model.heads", "text.vector_width", "training.learning_rate", "seed"} <= set(names)
    assert len(names) == len(set(names))
    assert {f"paper/{name}" for name in MODEL_NAMES} <= set(recipe_names())


@pytest.mark.parametrize(
    ("model", "values", "said"),
    [
        (
            "lama-ctx",
            {"model.disagreement_weight": 0.2},
            r"model\.disagreement_weight .* lama-ctx, only in lama-ctx-dp, lam",
        ),
        (
            "avg",
            {"training.learning_rate": 0.1, "model.heads": 3},
            r"model\.heads has no effect in avg, only",
        ),
        (
            "san",
            {"model.initial_temperature": None},
            r"model\.initial_temperature has no effect in san, only in l",
        ),
        (
            "bert",
            {"model.classifier_width": 0},
            r"model\.classifier_width has no effect in bert, only in .*avg",
        ),
        (
            None,
            {"model.name": "te", "model.pretrained": "x"},
            r"no effect in te, only in bert\. Lea",
        ),
    ],
)
def test_a_setting_without_effect_in_the_chosen_system_is_refused(
    model: str | None, values: dict[str, object], said: str
) -> None:
    fitting = {"text.max_words": 9, "model.heads": 2} if model is None else {}

    with pytest.raises(ConfigError, match=f"^--set: .*{said}"):
        resolve_recipe(model=model, values=fitting | values)


def test_a_file_states_nothing_without_effect_in_its_own_system(tmp_path: Path) -> None:
    name = write(tmp_path, "mine.toml", 'extends = "paper"\n[model]\nname = "cnn"\nheads = 3\n')

    with pytest.raises(ConfigError, match=r"mine\.toml: model\.heads has no effect in cnn, only"):
        load_recipe(name)


def test_what_a_recipe_inherits_need_not_have_an_effect(tmp_path: Path) -> None:
    base = write(tmp_path, "base.toml", "[model]\nheads = 3\nrank = 2\n")
    name = write(tmp_path, "top.toml", 'extends = "base.toml"\n[model]\nname = "avg"\n')

    assert load_recipe(name).model.name == "avg"
    assert resolve_recipe(recipe=base, model="avg").model.name == "avg"
    assert resolve_recipe(recipe=base, values={"model.name": "avg"}).model.name == "avg"


def test_a_recipe_in_hand_is_taken_as_it_is() -> None:
    recipe = resolve_recipe(model="avg")
    narrow = recipe.with_values({"model.rank": 20, "text.vector_width": 10})

    assert resolve_recipe(recipe=recipe) == recipe
    assert resolve_recipe(recipe=recipe, model="te") == resolve_recipe(model="te")
    with pytest.raises(
        ConfigError, match=r"^the recipe with model lama-encoder: model\.rank \(20\)"
    ):
        resolve_recipe(recipe=narrow, model="lama-encoder")
