import numpy as np
import pytest
import torch

from lamatext.errors import ModelError
from lamatext.explain.contributions import ClassifierHead, Contributions, attention_contributions
from tests.explain.models import Result, head_of, make_network, random_texts, run

SYSTEMS: list[tuple[str, dict[str, object]]] = [
    ("lama", {}),
    ("lama-ctx", {}),
    ("lama-ctx", {"initial_temperature": 8.0}),
    ("lama-encoder", {"rank": 2}),
    ("lama-encoder", {}),
    ("lama-encoder", {"classifier_width": 0}),
    ("lama-blocks", {"transformer_layers": 2}),
    ("lama-phrases", {"phrases": 3}),
    ("lama-phrases", {"phrases": 1, "classifier_width": 0}),
    ("bilinear", {}),
    ("san", {"san_width": 5}),
]


def contributions_of(
    name: str, result: Result, row: int, words: int, **settings: object
) -> Contributions:
    assert result.weights is not None
    return attention_contributions(
        head_of(make_network(name, **settings)),
        logits=result.logits[row],
        embedding=result.embedding[row],
        weights=result.weights[row, :, :words],
        states=result.states[row, :words],
    )


@pytest.mark.parametrize(("name", "settings"), SYSTEMS)
def test_contributions_add_up_to_gradient_times_embedding_and_with_the_base_to_the_logits(
    name: str, settings: dict[str, object]
) -> None:
    network = make_network(name, **settings)
    result, lengths = run(network, random_texts(1, 30, 7))

    for row, words in enumerate(lengths.tolist()):
        shares, base = contributions_of(name, result, row, words, **settings)

        gradient = head_of(network).gradient(result.embedding[row])
        linear = np.einsum("cmd,md->c", gradient, result.embedding[row])
        assert shares.shape == (3, words)
        np.testing.assert_allclose(shares.sum(axis=1), linear, atol=1e-5)
        np.testing.assert_allclose(shares.sum(axis=1) + base, result.logits[row], atol=1e-5)


def test_each_contribution_is_the_formula_written_as_loops() -> None:
    network = make_network("lama-encoder")
    result, _ = run(network, random_texts(6))
    gradient = head_of(network).gradient(result.embedding[0])
    assert result.weights is not None

    shares, _ = contributions_of("lama-encoder", result, 0, 6)

    for c in range(3):
        for t in range(6):
            expected = sum(
                result.weights[0, j, t] * (result.states[0, t] @ gradient[c, j]) for j in range(3)
            )
            assert shares[c, t] == pytest.approx(expected, abs=1e-6)


def test_padding_changes_no_contribution() -> None:
    network = make_network("lama-encoder")
    short, long = random_texts(4, 20)

    alone = contributions_of("lama-encoder", run(network, [short])[0], 0, 4)
    in_a_batch = contributions_of("lama-encoder", run(network, [short, long])[0], 0, 4)

    np.testing.assert_allclose(in_a_batch.contributions, alone.contributions, atol=1e-6)


@pytest.mark.parametrize("hidden", [16, 0])
def test_the_gradient_equals_that_of_autograd(hidden: int) -> None:
    network = make_network("lama-encoder", classifier_width=hidden)
    result, _ = run(network, random_texts(7))
    embedding = torch.from_numpy(result.embedding[0])

    expected = torch.func.jacrev(lambda s: network.classifier(s.flatten()))(embedding)  # (C, M, D)

    found = head_of(network).gradient(result.embedding[0])
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-6)


def test_missing_tensors_are_named_in_the_error() -> None:
    tensors = {"classifier.0.weight": np.zeros((2, 2), np.float32)}

    with pytest.raises(ModelError, match=r"lack classifier\.0\.bias, classifier\.3\.weight"):
        ClassifierHead.from_tensors(tensors)
