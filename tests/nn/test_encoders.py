"""The encoders against their papers' equations, written out."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamatext.errors import ConfigError
from lamatext.nn.encoders import (
    ConvolutionEncoder,
    GruEncoder,
    NoEncoder,
    TransformerEncoder,
    mask_of,
)

E, H = 5, 3  # embedding width, GRU units a direction
LENGTHS = torch.tensor([4, 2])

Array = NDArray[np.float64]


def embedded() -> Tensor:
    """Two texts of four and two words, with something loud in the padding."""
    torch.manual_seed(0)
    words = torch.randn(2, 4, E, dtype=torch.float64)
    words[1, 2:] = 7.0
    return words


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class PapersGru:
    """The GRU of the paper's section "Sequence Encoder", with its own parameters."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed).normal
        self.w = {gate: draw(size=(H, E)) for gate in "zrh"}
        self.u = {gate: draw(size=(H, H)) for gate in "zrh"}
        self.b = {gate: draw(size=H) for gate in "zrh"}

    def read(self, words: Array) -> Array:
        """The state after each word: (T, h)."""
        w, u, b, states, h = self.w, self.u, self.b, [], np.zeros(H)
        for x in words:
            z = sigmoid(w["z"] @ x + u["z"] @ h + b["z"])
            r = sigmoid(w["r"] @ x + u["r"] @ h + b["r"])
            candidate = np.tanh(w["h"] @ x + r * (u["h"] @ h + b["h"]))
            h = (1 - z) * h + z * candidate
            states.append(h)
        return np.array(states)

    def as_torchs(self) -> dict[str, Tensor]:
        """For torch's order r, z, n: its z is 1 − z, the input bias of its candidate is 0."""
        w, u, b, zero = self.w, self.u, self.b, np.zeros(H)
        arrays = {
            "weight_ih_l0": np.concatenate([w["r"], -w["z"], w["h"]]),
            "weight_hh_l0": np.concatenate([u["r"], -u["z"], u["h"]]),
            "bias_ih_l0": np.concatenate([b["r"], -b["z"], zero]),
            "bias_hh_l0": np.concatenate([zero, zero, b["h"]]),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("kernel", ["compiled", "plain"])
def test_the_bi_gru_is_the_papers(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMATEXT_GRU", kernel)
    forward, backward, words = PapersGru(1), PapersGru(2), embedded()
    encoder = GruEncoder(E, hidden=H).double()
    encoder.gru.load_state_dict(
        forward.as_torchs() | {f"{k}_reverse": v for k, v in backward.as_torchs().items()}
    )

    states = encoder(words, LENGTHS).detach().numpy()

    for text, length in enumerate(LENGTHS.tolist()):
        read = words[text, :length].numpy()
        expected = np.hstack([forward.read(read), backward.read(read[::-1])[::-1]])
        np.testing.assert_allclose(states[text, :length], expected, atol=1e-10)
    assert not states[1, 2:].any()


def test_torchs_own_gru_is_the_papers() -> None:
    paper, words = PapersGru(1), embedded()
    gru = nn.GRU(E, H, batch_first=True).double()
    gru.load_state_dict(paper.as_torchs())

    states = gru(words)[0].detach().numpy()

    np.testing.assert_allclose(states[0], paper.read(words[0].numpy()), atol=1e-12)


def test_the_convolutions_are_those_of_kim_2014() -> None:
    encoder = ConvolutionEncoder(E, filters=2).double()
    words = embedded()

    states = encoder(words, LENGTHS).detach().numpy()

    assert states.shape == (2, 4, encoder.width)
    for text, length in enumerate(LENGTHS.tolist()):
        for place in range(length):
            expected = []
            for size, layer in zip((3, 4, 5), encoder.windows, strict=True):
                weight, bias = (p.detach().numpy() for p in layer.parameters())
                for one in range(2):
                    total = bias[one]
                    for step in range(size):
                        at = place - (size - 1) // 2 + step
                        if 0 <= at < length:
                            total += weight[one, :, step] @ words[text, at].numpy()
                    expected.append(max(total, 0))
            np.testing.assert_allclose(states[text, place], expected, atol=1e-12)


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    unit: Array = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return unit * weight + bias


def vaswani(x: Array, p: dict[str, Array], heads: int) -> Array:
    """One encoder layer of "Attention is all you need" on one text (T, E): post-norm, ReLU."""
    width = x.shape[1] // heads
    qkv = x @ p["self_attn.in_proj_weight"].T + p["self_attn.in_proj_bias"]
    queries, keys, values = np.split(qkv, 3, axis=1)
    views = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        scores = queries[:, part] @ keys[:, part].T / math.sqrt(width)
        alike = np.exp(scores - scores.max(1, keepdims=True))
        views.append(alike / alike.sum(1, keepdims=True) @ values[:, part])
    attended = np.hstack(views) @ p["self_attn.out_proj.weight"].T + p["self_attn.out_proj.bias"]
    x = layer_norm(x + attended, p["norm1.weight"], p["norm1.bias"])
    inner = np.maximum(x @ p["linear1.weight"].T + p["linear1.bias"], 0)
    outer = inner @ p["linear2.weight"].T + p["linear2.bias"]
    return layer_norm(x + outer, p["norm2.weight"], p["norm2.bias"])


def transformer(layers: int = 1) -> TransformerEncoder:
    torch.manual_seed(3)
    encoder = TransformerEncoder(E + 3, heads=2, feed_forward=7, positions=6, layers=layers)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    return encoder.double().eval()


def wide_words() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 4, E + 3, dtype=torch.float64)


@pytest.mark.parametrize("with_gradients", [True, False])  # torch has another path without them
@pytest.mark.parametrize("layers", [1, 2])
def test_the_transformer_layer_is_that_of_vaswani_2017(layers: int, with_gradients: bool) -> None:
    encoder, words = transformer(layers), wide_words()

    with torch.set_grad_enabled(with_gradients):
        states = encoder(words, LENGTHS).detach().numpy()

    for text, length in enumerate(LENGTHS.tolist()):
        x = words[text, :length].numpy() + encoder.positions.weight[:length].detach().numpy()
        for layer in encoder.layers:
            x = vaswani(x, {k: v.detach().numpy() for k, v in layer.named_parameters()}, heads=2)
        np.testing.assert_allclose(states[text, :length], x, atol=1e-10)


def test_the_transformer_matches_torchs() -> None:
    encoder, words = transformer(2), wide_words()
    layer = nn.TransformerEncoderLayer(E + 3, 2, 7, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()
    theirs.layers.load_state_dict(encoder.layers.state_dict())
    places = torch.arange(4)

    expected = theirs(
        words + encoder.positions(places),
        src_key_padding_mask=places >= LENGTHS[:, None],
    )

    mask = mask_of(words, LENGTHS)
    torch.testing.assert_close(encoder(words, LENGTHS)[mask], expected[mask])


def test_transformer_layers_start_different_and_positions_start_small() -> None:
    torch.manual_seed(0)
    encoder = TransformerEncoder(64, heads=2, feed_forward=8, positions=50, layers=2)

    one, two = (layer.state_dict()["linear1.weight"] for layer in encoder.layers)

    assert not torch.equal(one, two)
    assert float(encoder.positions.weight.detach().std()) == pytest.approx(0.1, rel=0.1)


def test_the_transformers_dropout_is_0_1() -> None:
    rates = {layer.p for layer in transformer(2).modules() if isinstance(layer, nn.Dropout)}

    assert rates == {0.1}


ENCODERS: dict[str, Callable[[], nn.Module]] = {
    "gru": lambda: GruEncoder(E, hidden=H),
    "cnn": lambda: ConvolutionEncoder(E, filters=2),
    "te": lambda: TransformerEncoder(E, heads=1, feed_forward=4, positions=4),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_gradients_of_inputs_and_parameters_pass_gradcheck(name: str) -> None:
    torch.manual_seed(1)
    encoder = ENCODERS[name]().double().eval()
    names = [key for key, _ in encoder.named_parameters()]
    mask = mask_of(embedded(), LENGTHS)

    def run(words: Tensor, *parameters: Tensor) -> Tensor:
        states: Tensor = torch.func.functional_call(
            encoder, dict(zip(names, parameters, strict=True)), (words, LENGTHS)
        )
        return states[mask]

    words = embedded().requires_grad_()
    if name == "gru":  # the kernel reads the module's own parameters
        assert torch.autograd.gradcheck(lambda words: encoder(words, LENGTHS)[mask], (words,))
        return
    assert torch.autograd.gradcheck(run, (words, *encoder.parameters()))


def test_gradients_of_the_gru_match_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    encoder, words = GruEncoder(E, hidden=H).double(), embedded()

    def gradients(kernel: str) -> tuple[Tensor, ...]:
        monkeypatch.setenv("LAMATEXT_GRU", kernel)
        loss = encoder(words, LENGTHS).square().sum()
        return torch.autograd.grad(loss, list(encoder.parameters()))

    torch.testing.assert_close(gradients("compiled"), gradients("plain"))


def test_no_encoder_returns_the_embeddings() -> None:
    words = embedded()

    assert NoEncoder(E)(words, LENGTHS) is words
    assert NoEncoder(E).width == E


def test_width_is_the_width_of_the_states() -> None:
    for make in ENCODERS.values():
        encoder = make().double()
        assert encoder(embedded(), LENGTHS).shape == (2, 4, encoder.width)


def test_the_mask_is_true_for_words() -> None:
    expected = torch.tensor([[True] * 4, [True, True, False, False]])

    assert torch.equal(mask_of(embedded(), LENGTHS), expected)
    assert torch.equal(mask_of(torch.zeros(2, 4, dtype=torch.int64), LENGTHS), expected)


def test_a_text_longer_than_the_positions_is_an_error() -> None:
    encoder = TransformerEncoder(E, heads=1, feed_forward=4, positions=3)

    with pytest.raises(
        ConfigError, match="a text of 4 words is longer than the 3 learned positions"
    ):
        encoder(embedded().float(), LENGTHS)


@pytest.mark.parametrize("heads", [0, 2])
def test_a_width_not_divisible_by_the_heads_is_an_error(heads: int) -> None:
    with pytest.raises(ConfigError, match=rf"width \(5\) must be divisible by heads \({heads}\)"):
        TransformerEncoder(E, heads=heads, feed_forward=4, positions=3)
