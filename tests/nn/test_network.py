"""Every network as a whole: batch invariance, parameter counts and first losses."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamatext.errors import ModelError
from lamatext.nn import LowRankAttention
from lamatext.nn.encoders import TransformerEncoder
from lamatext.nn.network import Network, build_network, count_parameters
from lamatext.settings import ATTENTIVE, MODEL_NAMES, ModelSettings, TrainingSettings
from lamatext.training.loop import LoopSettings, training_loss

SYSTEMS = [name for name in MODEL_NAMES if name != "bert"]  # tested in test_pretrained.py
Array = NDArray[np.float64]
V, E, C = 11, 8, 3  # vocabulary, embedding width, classes
TEXTS = [[2, 3], [4, 5, 6, 7, 8, 9, 10], [3], [9, 9, 2, 4, 5]]


def settings(name: str, **values: object) -> ModelSettings:
    small = {"hidden_size": 3, "heads": 2, "classifier_width": 6, "cnn_filters": 4, "san_width": 5}
    return ModelSettings.model_validate(
        {
            "name": name,
            **small,
            "transformer_feed_forward": 16,
            "transformer_positions": 12,
            "phrases": 3,
            **values,
        }
    )


def system(name: str, **values: object) -> Network:
    """Return a network in eval mode, with weights large enough that every path matters."""
    torch.manual_seed(0)
    network = build_network(settings(name, **values), vocabulary=V, width=E, classes=C)
    for key, parameter in network.named_parameters():
        if "norm" not in key:
            nn.init.normal_(parameter, std=0.5)
    return network.eval()


def batch(texts: list[list[int]], words: int | None = None, fill: int = 0) -> tuple[Tensor, Tensor]:
    lengths = [len(text) for text in texts]
    rows = [text + [fill] * ((words or max(lengths)) - len(text)) for text in texts]
    return torch.tensor(rows), torch.tensor(lengths)


@pytest.mark.parametrize("with_gradients", [True, False])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_text_has_the_same_output_alone_and_in_any_batch(name: str, with_gradients: bool) -> None:
    network = system(name)

    with torch.set_grad_enabled(with_gradients):
        together = network(*batch(TEXTS))
        turned = network(*batch(TEXTS[::-1]))
        padded = network(*batch(TEXTS, words=12, fill=5))
        for place, text in enumerate(TEXTS):
            alone = network(*batch([text]))
            for company, row in ((together, place), (padded, place), (turned, 3 - place)):
                for field in ("logits", "embedding"):
                    torch.testing.assert_close(
                        getattr(company, field)[row], getattr(alone, field)[0], rtol=0, atol=1e-5
                    )
                if alone.weights is not None:
                    seen = company.weights[row]
                    torch.testing.assert_close(
                        seen[:, : len(text)], alone.weights[0], rtol=0, atol=1e-5
                    )
                    assert seen[:, len(text) :].eq(0).all()
                    torch.testing.assert_close(seen.sum(-1), torch.ones(len(seen)))


@pytest.mark.parametrize("name", SYSTEMS)
def test_other_words_give_other_logits(name: str) -> None:
    network = system(name)
    ids, lengths = batch(TEXTS)
    changed = ids.clone()
    changed[1, 6] = 2  # the last word of the longest text

    before, after = network(ids, lengths).logits, network(changed, lengths).logits

    assert not torch.allclose(before[1], after[1])
    torch.testing.assert_close(before[[0, 2, 3]], after[[0, 2, 3]])


@pytest.mark.parametrize("name", SYSTEMS)
def test_only_systems_with_attention_have_weights(name: str) -> None:
    output = system(name)(*batch(TEXTS))

    assert (output.weights is not None) == (name in ATTENTIVE)
    assert output.logits.shape == (4, C)
    assert output.states.shape[:2] == (4, 7)


@pytest.mark.parametrize("name", SYSTEMS)
def test_word_order_matters_only_with_an_encoder(name: str) -> None:
    network = system(name)

    there = network(*batch([[2, 3, 4, 5, 6]])).logits
    back = network(*batch([[6, 5, 4, 3, 2]])).logits

    assert torch.allclose(there, back, atol=1e-5) == (name in {"avg", "lama-encoder"})


@pytest.mark.parametrize("name", ["lama-ctx", "lama-encoder", "lama-blocks", "bilinear"])
def test_the_context_is_the_mean_of_the_real_words_embeddings(name: str) -> None:
    network = system(name)
    ids, lengths = batch(TEXTS)
    contexts = torch.stack([network.embedding.weight[text].mean(0) for text in TEXTS])
    mask = torch.arange(7) < lengths[:, None]

    output = network(ids, lengths)

    _, weights = network.pooling(output.states, mask, contexts)
    torch.testing.assert_close(output.weights, weights)


@pytest.mark.parametrize("name", ["bigru", "cnn"])
def test_the_embedding_is_the_maximum_over_the_states(name: str) -> None:
    output = system(name)(*batch(TEXTS))

    for text, words in enumerate(TEXTS):
        expected = output.states[text, : len(words)].max(dim=0).values
        assert torch.equal(output.embedding[text, 0], expected)


@pytest.mark.parametrize("name", ["avg", "te"])
def test_the_embedding_is_the_mean_over_the_states(name: str) -> None:
    output = system(name)(*batch(TEXTS))

    for text, words in enumerate(TEXTS):
        expected = output.states[text, : len(words)].mean(dim=0)
        torch.testing.assert_close(output.embedding[text, 0], expected)


def test_the_states_of_the_lama_encoder_are_the_embeddings() -> None:
    network = system("lama-encoder")
    ids, lengths = batch(TEXTS)

    assert torch.equal(network(ids, lengths).states, network.embedding(ids))


def test_without_context_all_texts_share_one_vector() -> None:
    assert "pooling.context" in system("lama").state_dict()
    assert "pooling.context" not in system("lama-ctx").state_dict()


def gru(h: int) -> int:
    return 2 * 3 * h * (E + h + 2)  # two directions, three gates: W, U and torch's two biases


def low_rank(context: int, states: int, m: int, k: int) -> int:
    return states * states + states + m * k * (context + states)  # W, b of uₜ; P and Q


def attention_of(name: str, h: int, m: int, k: int) -> int:
    """Count the parameters of the pooling layer by hand."""
    match name:
        case "lama":
            return low_rank(2 * h, 2 * h, m, k) + 2 * h
        case "lama-encoder" | "lama-blocks":
            return low_rank(E, E, m, k)
        case "lama-phrases":
            return low_rank(E, 2 * h, m, k) + m * k * (E + 2 * h)
        case "bilinear":
            return 4 * h * h + 2 * h + E * 2 * h
        case "san":
            return 5 * 2 * h + m * 5
        case "bigru" | "cnn" | "te" | "avg":
            return 0
        case _:
            return low_rank(E, 2 * h, m, k)


def encoder_of(name: str, h: int, m: int, k: int) -> int:
    match name:
        case "avg" | "lama-encoder":
            return 0
        case "cnn":
            return (3 + 4 + 5) * E * 4 + 3 * 4
        case "te":
            return 12 * E + 4 * (E * E + E) + (2 * E * 16 + 16 + E) + 4 * E
        case "lama-blocks":  # gains, window, one block: attention, W_o, feed-forward, norms
            block = low_rank(E, E, m, k) + E * E + (2 * E * 16 + 16 + E) + 4 * E
            return E + (5 * E + E) + block
        case _:
            return gru(h)


def rows_of(name: str, h: int, m: int) -> int:
    """Return the size of the flattened text embedding."""
    match name:
        case "avg" | "te":
            return E
        case "cnn":
            return 3 * 4
        case "bigru" | "bilinear":
            return 2 * h
        case "lama-encoder" | "lama-blocks":
            return m * E
        case _:
            return m * 2 * h


@pytest.mark.parametrize(("h", "m", "k"), [(3, 1, 1), (3, 4, 1), (4, 2, 3), (5, 8, 2)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_parameters_by_component(name: str, h: int, m: int, k: int) -> None:
    model = settings(name, hidden_size=h, heads=m, rank=k)

    counts = count_parameters(build_network(model, vocabulary=V, width=E, classes=C))

    assert counts == {
        "embedding": V * E,
        "encoder": encoder_of(name, h, m, k),
        "attention": attention_of(name, h, m, k),
        "classifier": rows_of(name, h, m) * 6 + 6 + 6 * C + C,
    }


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(("name", "a_head"), [("lama", 2 * 6), ("lama-ctx", E + 6)])
def test_a_head_of_lama_adds_these_parameters(name: str, a_head: int, k: int) -> None:
    def attention(m: int) -> int:
        model = settings(name, heads=m, rank=k)
        return count_parameters(build_network(model, vocabulary=V, width=E, classes=C))["attention"]

    assert [attention(m + 1) - attention(m) for m in (1, 2, 15)] == [a_head * k] * 3


def test_parameters_at_the_papers_sizes() -> None:
    model = ModelSettings(name="lama", heads=15)

    counts = count_parameters(build_network(model, vocabulary=1000, width=100, classes=2))

    assert counts == {
        "embedding": 100_000,
        "encoder": 2 * 3 * 50 * (100 + 50 + 2),
        "attention": 100 * 100 + 100 + 100 + 2 * 100 * 15,
        "classifier": 15 * 100 * 512 + 512 + 512 * 2 + 2,
    }


def test_frozen_parameters_are_not_counted() -> None:
    network = system("lama-ctx")
    network.embedding.requires_grad_(False)

    assert count_parameters(network)["embedding"] == 0


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_parameter_has_a_gradient(name: str) -> None:
    network = system(name)

    total = network(*batch(TEXTS)).logits.square().sum()
    gradients = torch.autograd.grad(total, list(network.parameters()), allow_unused=True)

    for (key, _), gradient in zip(network.named_parameters(), gradients, strict=True):
        assert gradient is not None, key
        assert gradient.abs().sum() > 0, key


def test_the_tensor_names_are_those_of_saved_models() -> None:
    names = set(system("lama-ctx", initial_temperature=2.0).state_dict())

    gru = {f"encoder.gru.{w}_{g}_l0" for w in ("weight", "bias") for g in ("ih", "hh")}
    assert names == gru | {f"{name}_reverse" for name in gru} | {
        "embedding.weight",
        "pooling.project.weight",
        "pooling.project.bias",
        "pooling.p.weight",
        "pooling.q.weight",
        "pooling.log_temperature",
        "classifier.0.weight",
        "classifier.0.bias",
        "classifier.3.weight",
        "classifier.3.bias",
    }


def test_the_attention_settings_reach_the_layer() -> None:
    attention = build_network(
        settings(
            "lama-ctx",
            rank=3,
            score_input="states",
            score_tanh=False,
            score_l2=False,
            initial_temperature=4.0,
        ),
        vocabulary=V,
        width=E,
        classes=C,
    ).pooling

    assert isinstance(attention, LowRankAttention)
    assert (attention.heads, attention.rank) == (2, 3)
    assert (attention.project, attention.tanh, attention.l2) == (None, False, False)
    assert attention.log_temperature is not None
    torch.testing.assert_close(attention.log_temperature.detach().exp(), torch.full((2,), 4.0))


def test_dropout_acts_only_in_training() -> None:
    network = system("lama-ctx", embedding_dropout=0.5)
    inputs = batch(TEXTS)

    assert torch.equal(network(*inputs).logits, network(*inputs).logits)
    network.train()
    assert not torch.equal(network(*inputs).logits, network(*inputs).logits)


def test_dropout_of_embeddings_and_of_the_classifier_has_its_rate() -> None:
    network = system("avg", embedding_dropout=0.3, dropout=0.6).train()
    nn.init.ones_(network.embedding.weight)

    numbers = network(torch.full((40, 50), 2), torch.full((40,), 50)).states.detach()

    assert float(numbers.eq(0).float().mean()) == pytest.approx(0.3, abs=0.05)
    torch.testing.assert_close(numbers[numbers != 0].unique(), torch.tensor([1 / 0.7]))
    assert [m.p for m in network.classifier.modules() if isinstance(m, nn.Dropout)] == [0.6]


def test_without_hidden_units_the_classifier_is_one_linear_layer_with_small_weights() -> None:
    torch.manual_seed(0)
    network = build_network(
        settings("lama-ctx", classifier_width=0, heads=40, dropout=0.6),
        vocabulary=V,
        width=E,
        classes=C,
    )
    output = network.eval()(*batch(TEXTS))

    weight, bias = (network.state_dict()[f"classifier.1.{part}"] for part in ("weight", "bias"))
    torch.testing.assert_close(output.logits, output.embedding.flatten(1) @ weight.T + bias)
    assert count_parameters(network)["classifier"] == 40 * 6 * C + C
    assert [m.p for m in network.classifier.modules() if isinstance(m, nn.Dropout)] == [0.6]
    assert float(weight.std()) == pytest.approx(0.02, rel=0.1)
    assert bias.eq(0).all()


def test_the_padding_embedding_starts_at_zero_and_a_transformer_has_its_layers() -> None:
    network = build_network(settings("te", transformer_layers=3), vocabulary=V, width=E, classes=C)

    assert network.embedding.weight[0].eq(0).all()
    assert isinstance(network.encoder, TransformerEncoder)
    assert len(network.encoder.layers) == 3


def test_build_network_rejects_bert() -> None:
    with pytest.raises(ModelError, match=r"bert is built by lamatext\.nn\.pretrained"):
        build_network(settings("bert"), vocabulary=V, width=E, classes=C)


def deterministic(model: ModelSettings) -> Network:
    """Return a network with weights from a formula, independent of random generators."""
    network = build_network(model, vocabulary=V, width=E, classes=C)
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            steps = torch.arange(parameter.numel(), dtype=torch.float32)
            parameter.copy_((0.7 * (1.3 * steps + number).sin()).view_as(parameter))
    return network


FIRST_LOSSES = {
    "lama-ctx": (1.444638, 1.377956, 1.265275),
    "lama-ctx-dp": (1.719675, 1.653896, 1.541968),
    "lama-ctx-de": (1.637793, 1.571307, 1.458766),
}


def read(x: Array, w: Array, u: Array, b: Array, d: Array) -> Array:
    """Run a GRU with torch's gate order r, z, n over one text: (T, E) → (T, h)."""
    h, states = np.zeros(u.shape[1]), []
    for word in x:
        (xr, xz, xn), (hr, hz, hn) = np.split(w @ word + b, 3), np.split(u @ h + d, 3)
        r, z = 1 / (1 + np.exp(-xr - hr)), 1 / (1 + np.exp(-xz - hz))
        h = (1 - z) * np.tanh(xn + r * hn) + z * h
        states.append(h)
    return np.array(states)


def logits_by_the_book(network: Network, text: list[int]) -> Array:
    """Compute LAMA+ctx from words to logits with numpy alone."""
    p = {k: v.detach().double().numpy() for k, v in network.state_dict().items()}
    x = p["embedding.weight"][text]  # (T, E)
    names = [f"encoder.gru.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    up = read(x, *(p[name] for name in names))
    down = read(x[::-1], *(p[f"{name}_reverse"] for name in names))[::-1]
    h = np.hstack([up, down])  # (T, 2h)
    u = np.tanh(h @ p["pooling.project.weight"].T + p["pooling.project.bias"])
    f = np.tanh((p["pooling.p.weight"] @ x.mean(0)) * (u @ p["pooling.q.weight"].T))  # (T, m)
    f = np.exp(f / np.linalg.norm(f, axis=1, keepdims=True))
    s = (f / f.sum(0)).T @ h  # (m, 2h)
    inner = np.maximum(p["classifier.0.weight"] @ s.ravel() + p["classifier.0.bias"], 0)
    logits: Array = p["classifier.3.weight"] @ inner + p["classifier.3.bias"]
    return logits


def test_the_logits_are_the_papers_equations_in_numpy() -> None:
    network = deterministic(settings("lama-ctx")).eval()

    logits = network(*batch(TEXTS)).logits.detach().numpy()

    expected = [logits_by_the_book(network, text) for text in TEXTS]
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("name", FIRST_LOSSES)
def test_the_first_three_losses_are_pinned(name: str) -> None:
    model = settings(name, dropout=0.0, disagreement_weight=0.2)
    plan = LoopSettings(model, TrainingSettings(), seed=0, device=torch.device("cpu"))
    network, labels = deterministic(model), torch.tensor([0, 1, 2, 0])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    losses = []
    for _ in range(3):
        loss = training_loss(network(*batch(TEXTS)), labels, plan)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())

    assert losses == pytest.approx(FIRST_LOSSES[name], abs=1e-4)


def test_the_loss_subtracts_the_weighted_disagreement() -> None:
    inputs, labels = batch(TEXTS), torch.tensor([0, 1, 2, 0])
    network = system("lama-ctx-dp")
    output = network(*inputs)
    assert output.weights is not None

    def loss(penalty: float) -> Tensor:
        model = settings("lama-ctx-dp", disagreement_weight=penalty)
        plan = LoopSettings(model, TrainingSettings(), seed=0, device=torch.device("cpu"))
        return training_loss(output, labels, plan)

    overlap = output.weights @ output.weights.mT - torch.eye(2)
    penal = overlap.square().sum((1, 2)).mean()  # ‖AAᵀ − I‖², the mean over the texts
    torch.testing.assert_close(loss(0.2) - loss(0.0), 0.2 * penal)
    torch.testing.assert_close(loss(0.0), nn.functional.cross_entropy(output.logits, labels))


def test_the_context_is_the_mean_of_the_embeddings_that_the_encoder_reads() -> None:
    network = system("lama-ctx", embedding_dropout=0.5).train()
    read: dict[str, Tensor] = {}
    network.encoder.register_forward_pre_hook(lambda _, given: read.update(words=given[0]))
    network.pooling.register_forward_pre_hook(lambda _, given: read.update(context=given[2]))

    network(*batch([TEXTS[1]]))

    torch.testing.assert_close(read["context"], read["words"].mean(1))
