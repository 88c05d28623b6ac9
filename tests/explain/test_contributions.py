import numpy as np
import pytest

from lamatext.explain.contributions import Pooling, contributions, word_contributions
from tests.explain.models import head_of, make_network, random_texts, run

SYSTEMS: list[tuple[str, dict[str, object], Pooling]] = [
    ("lama", {}, "attention"),
    ("lama-ctx", {}, "attention"),
    ("lama-ctx", {"initial_temperature": 8.0}, "attention"),
    ("lama-encoder", {"rank": 2}, "attention"),
    ("lama-encoder", {}, "attention"),
    ("lama-encoder", {"classifier_width": 0}, "attention"),
    ("bilinear", {}, "attention"),
    ("san", {"san_width": 5}, "attention"),
    ("avg", {}, "mean"),
    ("te", {}, "mean"),
    ("bigru", {}, "max"),
    ("cnn", {}, "max"),
]


@pytest.mark.parametrize(("name", "settings", "pooling"), SYSTEMS)
def test_contributions_and_the_constant_of_the_linear_piece_add_up_to_the_logits(
    name: str, settings: dict[str, object], pooling: Pooling
) -> None:
    network = make_network(name, **settings)
    head = head_of(network)
    result, lengths = run(network, random_texts(1, 30, 7))

    found = contributions(result, lengths, head, pooling=pooling)

    for row, (shares, base) in enumerate(found):
        assert shares.shape == (3, lengths[row])
        np.testing.assert_allclose(shares.sum(axis=1) + base, result.logits[row], atol=1e-5)
        np.testing.assert_allclose(base, head.constant(result.embedding[row]), atol=1e-5)


def test_each_share_is_the_formula_written_as_loops() -> None:
    network = make_network("lama-encoder")
    head, texts = head_of(network), random_texts(6)
    result, lengths = run(network, texts)
    gradient = head.gradient(result.embedding[0])
    assert result.weights is not None

    [(shares, _)] = contributions(result, lengths, head)

    for c in range(3):
        for t in range(6):
            expected = sum(
                result.weights[0, j, t] * (result.states[0, t] @ gradient[c, j]) for j in range(3)
            )
            assert shares[c, t] == pytest.approx(expected, abs=1e-6)


def test_a_maximum_counts_for_the_word_that_has_it() -> None:
    states = np.array([[1, -1], [3, -5], [2, -2]], np.float32)
    gradient = np.array([[[10, 100]], [[-1, 0]]], np.float32)  # two classes, no head

    shares = word_contributions(np.empty((0, 3), np.float32), states, gradient)

    np.testing.assert_array_equal(shares, [[-100, 30, 0], [0, -3, 0]])


def test_padding_changes_nothing() -> None:
    network = make_network("lama-encoder")
    head, (short, long) = head_of(network), random_texts(4, 20)

    [alone] = contributions(*run(network, [short]), head)
    beside, _ = contributions(*run(network, [short, long]), head)

    np.testing.assert_allclose(beside.contributions, alone.contributions, atol=1e-6)


def test_a_model_without_weights_must_say_how_it_pools() -> None:
    network = make_network("avg")

    with pytest.raises(ValueError, match="no attention weights"):
        contributions(*run(network, random_texts(3)), head_of(network))
