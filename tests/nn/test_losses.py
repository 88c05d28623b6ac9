"""The disagreement terms against the paper's equations, entry by entry."""

import math

import pytest
import torch
from torch import Tensor

from lamatext.nn.losses import (
    disagreement,
    disagreement_over_embeddings,
    disagreement_over_positions,
)
from lamatext.nn.network import Output
from lamatext.settings import ModelSettings


def weights_and_embedding() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    weights = torch.randn(2, 3, 5, dtype=torch.float64).softmax(-1)
    return weights, torch.randn(2, 3, 4, dtype=torch.float64)


def test_d_penal_is_the_papers() -> None:
    weights, _ = weights_and_embedding()

    found = disagreement_over_positions(weights)

    for text, a in enumerate(weights.tolist()):
        total = 0.0
        for i in range(3):
            for j in range(3):
                entry = sum(a[i][t] * a[j][t] for t in range(5)) - (1.0 if i == j else 0.0)
                total += entry**2
        assert float(found[text]) == pytest.approx(-total, abs=1e-12)


def test_d_emb_is_the_papers() -> None:
    _, embedding = weights_and_embedding()

    found = disagreement_over_embeddings(embedding)

    for text, s in enumerate(embedding.tolist()):
        total = 0.0
        for i in range(3):
            for j in range(3):  # the paper's second index is a misprint for j
                dot = sum(x * y for x, y in zip(s[i], s[j], strict=True))
                total += dot / (math.hypot(*s[i]) * math.hypot(*s[j]))
        assert float(found[text]) == pytest.approx(-total / 9, abs=1e-12)


def test_heads_on_different_words_disagree_most() -> None:
    apart = torch.eye(3)[None]
    together = torch.tensor([[[1.0, 0, 0]] * 3])

    assert disagreement_over_positions(apart) == 0
    assert disagreement_over_positions(together) == -6  # six pairs of different heads
    assert disagreement_over_embeddings(together) == -1
    assert float(disagreement_over_embeddings(apart)) == pytest.approx(-1 / 3)


def test_gradients_pass_gradcheck() -> None:
    weights, embedding = weights_and_embedding()

    assert torch.autograd.gradcheck(disagreement_over_positions, (weights.requires_grad_(),))
    assert torch.autograd.gradcheck(disagreement_over_embeddings, (embedding.requires_grad_(),))


def output() -> Output:
    weights, embedding = weights_and_embedding()
    return Output(torch.zeros(2, 2), embedding, weights, torch.zeros(2, 5, 4))


@pytest.mark.parametrize("name", ["lama-ctx-dp", "san"])
def test_these_models_penalise_overlapping_positions(name: str) -> None:
    settings = ModelSettings.model_validate({"name": name, "heads": 3})

    found = disagreement(settings, output())

    torch.testing.assert_close(found, disagreement_over_positions(weights_and_embedding()[0]))


def test_lama_ctx_de_penalises_similar_embeddings() -> None:
    settings = ModelSettings(name="lama-ctx-de", heads=3)

    found = disagreement(settings, output())

    torch.testing.assert_close(found, disagreement_over_embeddings(weights_and_embedding()[1]))


@pytest.mark.parametrize("name", ["lama", "lama-ctx", "lama-encoder", "bilinear", "bigru", "te"])
def test_the_other_models_have_no_disagreement_term(name: str) -> None:
    settings = ModelSettings.model_validate({"name": name, "heads": 3})

    assert disagreement(settings, output()) is None
