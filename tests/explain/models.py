"""Small networks with random weights, and explanations, for the tests of ``explain``."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lamatext.data.token_ids import Ids, TokenIds
from lamatext.explain.contributions import ClassifierHead
from lamatext.explain.explanation import Explanation
from lamatext.nn.network import Network, build_network
from lamatext.settings import ModelSettings

Floats = NDArray[np.float32]
VOCABULARY, WIDTH, CLASSES = 40, 6, 3


class Result(NamedTuple):
    logits: Floats
    embedding: Floats
    weights: Floats | None
    states: Floats


def make_network(name: str, **settings: object) -> Network:
    torch.manual_seed(0)
    model = ModelSettings.model_validate(
        {
            "name": name,
            "hidden_size": 4,
            "heads": 3,
            "classifier_width": 16,
            "transformer_feed_forward": 8,
        }
        | settings
    )
    network = build_network(model, vocabulary=VOCABULARY, width=WIDTH, classes=CLASSES).eval()
    with torch.no_grad():
        for parameter in network.classifier.parameters():
            parameter.mul_(3)
    return network


def run(network: Network, texts: list[Ids]) -> tuple[Result, NDArray[np.int32]]:
    ids, lengths = TokenIds.from_lists(texts).pad(np.arange(len(texts)))
    with torch.no_grad():
        output = network(torch.from_numpy(ids).long(), torch.from_numpy(lengths).long())
    weights = None if output.weights is None else output.weights.numpy()
    arrays = (output.logits.numpy(), output.embedding.numpy(), weights, output.states.numpy())
    return Result(*arrays), lengths


def logits_of(network: Network, texts: list[Ids]) -> Floats:
    return run(network, texts)[0].logits


def probabilities_of(network: Network, texts: list[Ids]) -> Floats:
    return softmax(logits_of(network, texts))


def head_of(network: Network) -> ClassifierHead:
    return ClassifierHead.from_tensors(
        {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    )


def random_texts(*lengths: int, seed: int = 0) -> list[Ids]:
    random = np.random.default_rng(seed)
    return [random.integers(2, VOCABULARY, n).astype(np.int32) for n in lengths]


def softmax(logits: Floats) -> Floats:
    powers: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def make_explanation(
    text: str, *, labels: tuple[str, ...] = ("bad", "good"), heads: int | None = 3, seed: int = 0
) -> Explanation:
    """Return an explanation of ``text`` with random numbers and the tokenizer's words."""
    from lamatext.data.tokenizer import WordTokenizer

    random = np.random.default_rng(seed)
    spans = WordTokenizer().spans(text) or [(0, 0)]
    shape = (len(labels), len(spans))
    contributions = random.normal(size=shape).astype(np.float32)
    base = random.normal(size=len(labels)).astype(np.float32)
    scores = random.normal(scale=2, size=(heads or 1, len(spans))).astype(np.float32)
    return Explanation(
        text=text,
        spans=spans,
        labels=labels,
        probabilities=softmax(contributions.sum(axis=1) + base),
        contributions=contributions,
        base=base,
        weights=None if heads is None else softmax(scores),
        method="contribution" if heads else "occlusion",
    )
