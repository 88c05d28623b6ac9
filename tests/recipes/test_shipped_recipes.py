"""Every recipe that ships parses, builds its system, and says what the paper says."""

import pytest
import torch

from lamatext.nn.losses import DISAGREEMENT
from lamatext.nn.network import build_network
from lamatext.recipes import load_recipe, recipe_names
from lamatext.settings import MODEL_NAMES

OWN_RECIPES = {"default", "paper", "student", "teacher"}


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_parses(name: str) -> None:
    recipe = load_recipe(name)

    assert name in OWN_RECIPES or name == f"paper/{recipe.model.name}"


def test_every_model_has_a_recipe_of_the_paper() -> None:
    assert set(recipe_names()) == {*(f"paper/{name}" for name in MODEL_NAMES), *OWN_RECIPES}


@pytest.mark.parametrize(
    "name", [name for name in recipe_names() if load_recipe(name).model.name != "bert"]
)
def test_every_recipe_builds_a_network_that_runs(name: str) -> None:
    recipe = load_recipe(name)

    network = build_network(
        recipe.model, vocabulary=9, width=recipe.text.vector_width, classes=2
    ).eval()

    assert network(torch.tensor([[2, 3, 4]]), torch.tensor([3])).logits.shape == (1, 2)


def test_the_papers_settings_are_the_papers() -> None:
    recipe = load_recipe("paper")
    text, model, training = recipe.text, recipe.model, recipe.training

    assert (text.vector_width, text.min_count, text.rare_words, text.tokenizer) == (
        100,
        5,
        "drop",
        "spacy",
    )
    assert (model.hidden_size, model.classifier_width, model.dropout) == (50, 512, 0.4)
    assert (model.rank, model.score_tanh, model.score_l2, model.initial_temperature) == (
        1,
        True,
        True,
        None,
    )
    assert model.embedding_dropout == 0
    assert (training.batch_size, training.learning_rate, training.patience) == (32, 0.05, 5)
    assert (training.optimizer, training.momentum) == ("sgd", 0.9)
    assert training.weight_decay == 1e-4


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_the_disagreement_terms_have_the_papers_weight_and_san_the_chosen_one(name: str) -> None:
    penalty = load_recipe(f"paper/{name}").model.disagreement_weight

    assert penalty == {"san": 0.0}.get(name, 0.2 if name in DISAGREEMENT else 0.0)


def test_the_baselines_have_the_sizes_that_the_paper_gives_them() -> None:
    te, bert = load_recipe("paper/te"), load_recipe("paper/bert")

    assert (te.text.vector_width, te.model.heads, te.model.transformer_layers) == (512, 8, 1)
    assert (te.model.transformer_feed_forward, te.model.transformer_positions) == (2048, 512)
    assert load_recipe("paper/cnn").model.cnn_filters == 100
    assert load_recipe("paper/san").model.san_width == 350
    assert bert.model.pretrained == "bert-base-uncased"
    assert (bert.training.optimizer, bert.training.learning_rate, bert.training.epochs) == (
        "adam",
        5e-6,
        2,
    )
