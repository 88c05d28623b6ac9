"""Every model reaches 95 % accuracy on unseen texts of a small synthetic corpus."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from lamatext.nn.network import build_network
from lamatext.settings import MODEL_NAMES, ModelSettings, TrainingSettings
from lamatext.training.loop import LoopSettings, training_loss

CLASSES, WORDS, KEYWORDS, LONGEST = 3, 60, 4, 14


class Texts(NamedTuple):
    ids: Tensor  # (n, T)
    lengths: Tensor  # (n,)
    labels: Tensor  # (n,)


def synthetic(number: int, seed: int) -> Texts:
    """Return random texts, each with two of the four keywords of its class."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (number,), generator=draw)
    lengths = torch.randint(5, LONGEST + 1, (number,), generator=draw)
    ids = torch.randint(2 + CLASSES * KEYWORDS, WORDS, (number, LONGEST), generator=draw)
    for text, (label, length) in enumerate(zip(labels.tolist(), lengths.tolist(), strict=True)):
        places = torch.randperm(length, generator=draw)[:2]
        keys = torch.randint(KEYWORDS, (2,), generator=draw)
        ids[text, places] = 2 + label * KEYWORDS + keys
        ids[text, length:] = 0
    return Texts(ids, lengths, labels)


def network_of(model: ModelSettings) -> nn.Module:
    if model.name != "bert":
        return build_network(model, vocabulary=WORDS, width=16, classes=CLASSES)
    transformers = pytest.importorskip("transformers", reason="needs the extra bert")
    from lamatext.nn.pretrained import PretrainedNetwork

    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
    )
    encoder = transformers.BertModel(config)
    return PretrainedNetwork(encoder, pooled="pooler", classes=CLASSES, dropout=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_model_learns_a_separable_corpus(name: str) -> None:
    model = ModelSettings.model_validate(
        {
            "name": name,
            "hidden_size": 12,
            "heads": 4,
            "classifier_width": 32,
            "cnn_filters": 12,
            "disagreement_weight": 0.2,
            "transformer_feed_forward": 64,
            "transformer_positions": 16,
        }
    )
    plan = LoopSettings(model, TrainingSettings(), seed=0, device=torch.device("cpu"))
    train, unseen = synthetic(400, seed=1), synthetic(200, seed=2)
    torch.manual_seed(0)
    network = network_of(model)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)

    for _ in range(25):
        for rows in torch.split(torch.randperm(400), 32):
            output = network(train.ids[rows], train.lengths[rows])
            optimizer.zero_grad()
            training_loss(output, train.labels[rows], plan).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    with torch.no_grad():
        guesses = network.eval()(unseen.ids, unseen.lengths).logits.argmax(1)
    assert float((guesses == unseen.labels).float().mean()) >= 0.95
