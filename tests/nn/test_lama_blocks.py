"""The encoder of lama-blocks against its equations in float64, padding, and lama-encoder."""

import math

import pytest
import torch
from torch import Tensor, nn

from lamatext.errors import ConfigError
from lamatext.nn.attention import LowRankAttention
from lamatext.nn.encoders import learned_positions
from lamatext.nn.lama_blocks import BlocksEncoder, LamaBlock, SinusoidalPositions
from lamatext.nn.network import build_network
from lamatext.settings import ModelSettings, Recipe

B, T, D, M, G = 3, 7, 6, 4, 5
LENGTHS = torch.tensor([7, 1, 4])


def random_weights(module: nn.Module) -> None:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.6)


def block() -> LamaBlock:
    layer = LamaBlock(LowRankAttention(D, M, D, rank=2, temperature=3.0), D, feed_forward=G)
    random_weights(layer)
    return layer.double()


def encoder(blocks: int = 1, *, end: bool = False, radius: int = 2) -> BlocksEncoder:
    made = BlocksEncoder(
        D,
        [block() for _ in range(blocks)],
        positions=SinusoidalPositions(D),
        end_positions=SinusoidalPositions(D) if end else None,
        window_radius=radius,
    )
    random_weights(made)
    return made.double()


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    states = torch.randn(B, T, D, dtype=torch.float64)
    return states, torch.arange(T) < LENGTHS[:, None], torch.randn(B, D, dtype=torch.float64)


def layer_norm(h: Tensor, norm: nn.LayerNorm) -> Tensor:
    return (h - h.mean()) / (h.var(correction=0) + 1e-5).sqrt() * norm.weight + norm.bias


def block_by_the_book(layer: LamaBlock, h: Tensor, c: Tensor) -> Tensor:
    """Compute a block for one text (T, D), word by word, from the equations in docs/model.md."""
    f = layer.attention.scores(h[None], c[None])[0]  # (T, M)
    a = [[f[t, i].exp() / f[:, i].exp().sum() for t in range(len(h))] for i in range(M)]
    s = [torch.stack([a[i][t] * h[t] for t in range(len(h))]).sum(0) for i in range(M)]
    rows = []
    for t in range(len(h)):
        read = torch.stack([f[t, i].exp() / f[t].exp().sum() * s[i] for i in range(M)]).sum(0)
        first = layer_norm(h[t] + layer.output.weight @ read, layer.norm1)
        inner = (layer.linear1.weight @ first + layer.linear1.bias).relu()
        rows.append(
            layer_norm(first + layer.linear2.weight @ inner + layer.linear2.bias, layer.norm2)
        )
    return torch.stack(rows)


def test_a_block_is_its_equation() -> None:
    layer, (states, mask, context) = block(), inputs()

    fast = layer(states, mask, context)

    for row, length in enumerate(LENGTHS.tolist()):
        expected = block_by_the_book(layer, states[row, :length], context[row])
        torch.testing.assert_close(fast[row, :length], expected, rtol=0, atol=1e-12)


def test_the_gradients_of_a_block_are_those_of_its_equation() -> None:
    layer, (states, mask, context) = block(), inputs()
    states.requires_grad_()

    def gradients(outputs: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(outputs.sin().sum(), [states, *layer.parameters()])

    fast = gradients(layer(states, mask, context)[mask])
    texts = [
        block_by_the_book(layer, states[row, :length], context[row])
        for row, length in enumerate(LENGTHS.tolist())
    ]
    plain = gradients(torch.cat(texts))

    for ours, theirs in zip(fast, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_positions_and_window_are_their_equations() -> None:
    layer, (words, _, _) = encoder(0, end=True), inputs()
    assert layer.window is not None
    assert layer.window.bias is not None
    gains = {name: getattr(layer, name).gain for name in ("positions", "end_positions")}

    def position(t: int, gain: Tensor) -> Tensor:
        angles = [t * torch.tensor(10_000.0 ** (-i / 3)).item() for i in range(3)]
        waves = [*map(math.sin, angles), *map(math.cos, angles)]
        return torch.tensor(waves, dtype=torch.float64) * gain

    states = layer(words, LENGTHS)

    for row, length in enumerate(LENGTHS.tolist()):
        h = [
            words[row, t]
            + position(t, gains["positions"])
            + position(length - 1 - t, gains["end_positions"])
            for t in range(length)
        ]
        for t in range(length):
            total = layer.window.bias.clone()
            for offset in range(-2, 3):
                if 0 <= t + offset < length:
                    total = total + layer.window.weight[:, 0, offset + 2] * h[t + offset]
            torch.testing.assert_close(states[row, t], h[t] + total.relu(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("end", [False, True])
def test_padding_changes_no_state(end: bool) -> None:
    layer, (words, _, _) = encoder(2, end=end), inputs()
    padded = torch.cat([words, torch.full((B, 3, D), 9.0, dtype=torch.float64)], dim=1)

    states = layer(padded, LENGTHS)

    for row, length in enumerate(LENGTHS.tolist()):
        alone = layer(words[row : row + 1, :length], LENGTHS[row : row + 1])[0]
        torch.testing.assert_close(states[row, :length], alone, rtol=0, atol=1e-12)


def test_positions_from_the_end_differ_from_those_from_the_start() -> None:
    words = inputs()[0][:1, :1].expand(1, T, D)  # one word, repeated

    states = encoder(0, end=True, radius=0)(words, torch.tensor([T]))

    assert not torch.allclose(states, states.flip(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_positions_window_and_blocks_it_is_lama_encoder(dtype: torch.dtype) -> None:
    bare = {"position_encoding": "none", "window_radius": 0, "transformer_layers": 0}
    ids = torch.tensor([[2, 3, 4, 5], [6, 7, 0, 0]])
    logits = []
    for values in ({"name": "lama-encoder"}, {"name": "lama-blocks", **bare}):
        torch.manual_seed(0)
        model = ModelSettings.model_validate({"heads": 3, "classifier_width": 5, **values})
        network = build_network(model, vocabulary=9, width=D, classes=2).to(dtype).eval()
        logits.append(network(ids, torch.tensor([4, 2])).logits)

    assert torch.equal(*logits)


def test_one_block_of_the_recipe_has_as_many_parameters_as_the_bi_gru() -> None:
    from lamatext.nn.network import count_parameters
    from lamatext.recipes import load_recipe

    counts = {
        name: count_parameters(
            build_network(load_recipe(f"paper/{name}").model, vocabulary=9, width=100, classes=2)
        )["encoder"]
        for name in ("lama-ctx", "lama-blocks")
    }

    assert counts["lama-blocks"] == pytest.approx(counts["lama-ctx"], rel=0.01)


def test_a_text_longer_than_the_learned_positions_is_an_error() -> None:
    layer = BlocksEncoder(D, [], positions=learned_positions(3, D))

    with pytest.raises(ConfigError, match="a text of 7 words is longer than the 3 learned"):
        layer(torch.zeros(1, T, D), torch.tensor([T]))
    with pytest.raises(ConfigError, match=r"positions is 512, but text\.max_words is not set"):
        Recipe().with_values({"model.name": "lama-blocks", "model.position_encoding": "learned"})
