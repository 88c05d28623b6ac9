"""A setting changes the first loss exactly in the models that ``USED_BY`` lists for it."""

from pathlib import Path

import pyarrow as pa
import pytest
import torch

from lamatext.data.splits import Split, stratified_split
from lamatext.settings import MODEL_NAMES, USED_BY, ModelSettings, Recipe, has_effect
from lamatext.training.loop import LoopSettings, training_loss
from lamatext.training.preparation import prepare_run
from tests.corpora import TINY, reviews
from tests.nn.tiny_bert import save_bert

SMALL = TINY | {
    "text.max_words": 12,
    "model.heads": 2,
    "model.san_width": 5,
    "model.disagreement_weight": 0.2,
    "model.cnn_filters": 4,
    "model.transformer_feed_forward": 16,
    "model.transformer_positions": 12,
    "model.position_encoding": "learned",
    "model.phrases": 2,
}
OTHER: dict[str, object] = {
    "model.hidden_size": 5,
    "model.heads": 4,
    "model.rank": 2,
    "model.score_input": "states",
    "model.score_tanh": False,
    "model.score_l2": False,
    "model.initial_temperature": 8.0,
    "model.san_width": 6,
    "model.disagreement_weight": 0.5,
    "model.cnn_filters": 6,
    "model.transformer_layers": 2,
    "model.transformer_feed_forward": 24,
    "model.transformer_positions": 14,
    "model.position_encoding": "sinusoidal",
    "model.end_positions": True,
    "model.window_radius": 1,
    "model.phrases": None,
    "model.classifier_width": 9,
    "model.dropout": 0.2,
    "model.embedding_dropout": 0.2,
}  # and model.pretrained, for which two encoders are made


def first_loss(values: dict[str, object]) -> float:
    """Of a run with these settings, which shows every difference of its network and its loss."""
    recipe = Recipe().with_values(values)
    texts, labels = reviews(12)
    numbers = torch.tensor([label == "pos" for label in labels]).long()
    column = pa.chunked_array([texts], pa.large_string())
    split = Split(*stratified_split(labels, (0.9, 0.1), recipe.seed))
    prepared = prepare_run(column, split, recipe, classes=2)
    with torch.no_grad():
        for parameter in prepared.network.parameters():
            parameter.mul_(4)  # a tanh of small numbers would be those numbers
    ids, lengths = map(torch.from_numpy, prepared.token_ids.pad(split.train))
    plan = LoopSettings(recipe.model, recipe.training, seed=0, device=torch.device("cpu"))
    return training_loss(prepared.network.train()(ids, lengths), numbers[split.train], plan).item()


def two_encoders(folder: Path) -> list[str]:
    return [save_bert(folder / "one", seed=1), save_bert(folder / "other", seed=2)]


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_setting_has_an_effect_exactly_where_the_table_says(name: str, tmp_path: Path) -> None:
    first, second = two_encoders(tmp_path) if name == "bert" else ["one", "other"]
    given = SMALL | {"model.name": name, "model.pretrained": first}
    others = OTHER | {"model.pretrained": second}
    before = first_loss(given)

    effective = {key for key, value in others.items() if first_loss(given | {key: value}) != before}

    assert effective == {key for key in others if has_effect(key, name)}
    assert first_loss(given) == before


def test_no_setting_of_a_model_is_left_out() -> None:
    fields = {f"model.{field}" for field in ModelSettings.model_fields}

    assert {*OTHER, "model.pretrained", "model.name"} == fields
    assert set(USED_BY) <= fields
