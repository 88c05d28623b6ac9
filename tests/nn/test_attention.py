"""The attention layers against the paper's formulas, written as loops over words and heads."""

import math
from collections.abc import Callable
from itertools import product
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from lamatext.errors import ConfigError
from lamatext.nn import BilinearAttention, LowRankAttention, StructuredAttention
from lamatext.nn.attention import l2_normalized, masked_softmax

Layer = TypeVar("Layer", bound=nn.Module)

D, E, M, T = 6, 4, 3, 5  # state width, context width, heads, words


def states_and_mask() -> tuple[Tensor, Tensor]:
    """Two texts of five and three words; what stands in the padding must not matter."""
    torch.manual_seed(0)
    states = torch.randn(2, T, D, dtype=torch.float64)
    states[1, 3:] = 9.0
    return states, torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def word_by_the_book(layer: LowRankAttention | BilinearAttention, h: Tensor) -> list[float]:
    """u = tanh(W h + b), or h itself."""
    if layer.project is None:
        return [float(x) for x in h]
    w, b = layer.project.weight, layer.project.bias
    return [
        math.tanh(sum(float(w[i, j]) * float(h[j]) for j in range(len(h))) + float(b[i]))
        for i in range(len(h))
    ]


def score_by_the_book(layer: LowRankAttention, head: int, c: Tensor, u: list[float]) -> float:
    """f = cᵀ (Σ_d p_d q_dᵀ) u, with the whole matrix of the head, entry by entry."""
    rows = range(head * layer.rank, (head + 1) * layer.rank)
    return sum(
        float(c[i]) * float(layer.p.weight[row, i]) * float(layer.q.weight[row, j]) * u[j]
        for row in rows
        for i in range(len(c))
        for j in range(len(u))
    )


def weights_by_the_book(layer: LowRankAttention, h: Tensor, c: Tensor) -> list[list[float]]:
    """A = softmax(l2(tanh(f))) of one text without padding: a list of T weights a head."""
    scores = []  # a row of M scores for each word
    for word in h:
        u = word_by_the_book(layer, word)
        f = [score_by_the_book(layer, head, c, u) for head in range(layer.heads)]
        if layer.tanh:
            f = [math.tanh(x) for x in f]
        if layer.l2:
            norm = math.sqrt(sum(x * x for x in f))
            f = [x / norm for x in f]
        if layer.log_temperature is not None:
            f = [x * math.exp(float(layer.log_temperature[i])) for i, x in enumerate(f)]
        scores.append(f)
    weights = []
    for head in range(layer.heads):
        total = sum(math.exp(f[head]) for f in scores)
        weights.append([math.exp(f[head]) / total for f in scores])
    return weights


def embedding_by_the_book(weights: list[list[float]], h: Tensor) -> Tensor:
    """s_j = Σ_k h_k α_jk."""
    rows = [
        [sum(alpha * float(h[t, i]) for t, alpha in enumerate(row)) for i in range(h.shape[1])]
        for row in weights
    ]
    return torch.tensor(rows, dtype=torch.float64)


def randomised(layer: nn.Module, seed: int = 1) -> None:
    """Weights large enough that every non-linearity bends."""
    torch.manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.8)


def frozen(layer: Layer) -> Layer:
    """The layer with such weights, as numbers without gradients, in float64."""
    layer.double().requires_grad_(False)
    randomised(layer)
    return layer


@pytest.mark.parametrize(
    ("context_width", "rank", "project", "tanh", "l2", "temperature"),
    [
        *product([None, E], [1, 3], [True, False], [True, False], [True, False], [None]),
        *product([None, E], [2], [True], [True], [True, False], [8.0]),
    ],
)
def test_the_weights_and_the_embedding_are_the_papers(
    context_width: int | None,
    rank: int,
    project: bool,
    tanh: bool,
    l2: bool,
    temperature: float | None,
) -> None:
    layer = frozen(
        LowRankAttention(
            D,
            M,
            context_width,
            rank=rank,
            project=project,
            tanh=tanh,
            l2=l2,
            temperature=temperature,
        )
    )
    states, mask = states_and_mask()
    given = None if context_width is None else torch.randn(2, context_width).double()

    embedding, weights = layer(states, mask, given)

    for text, words in enumerate([5, 3]):
        c = layer.context if given is None else given[text]
        assert c is not None
        expected = weights_by_the_book(layer, states[text, :words], c)
        torch.testing.assert_close(weights[text, :, :words], torch.tensor(expected).double())
        torch.testing.assert_close(
            embedding[text], embedding_by_the_book(expected, states[text, :words])
        )


def test_the_papers_one_word_of_two_heads_by_hand() -> None:
    layer = LowRankAttention(2, 2, 2, project=False).double()
    with torch.no_grad():
        layer.p.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        layer.q.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    words = torch.tensor([[[1.0, 3.0], [2.0, -1.0]]], dtype=torch.float64)
    context = torch.tensor([[0.5, 0.25]], dtype=torch.float64)

    scores = layer.scores(words, context)[0]

    first = [math.tanh(0.5 * 3), math.tanh(0.5 * 1)]  # Pᵀc = (.5, .5); Qᵀh = (3, 1)
    second = [math.tanh(0.5 * -1), math.tanh(0.5 * 2)]  # Qᵀh = (−1, 2)
    expected = [[x / math.hypot(*row) for x in row] for row in (first, second)]
    torch.testing.assert_close(scores, torch.tensor(expected).double())


def test_at_full_rank_the_factorised_head_is_the_bilinear_one() -> None:
    full = BilinearAttention(D, D).double()
    low = LowRankAttention(D, 1, D, rank=D, tanh=False, l2=False).double()
    randomised(full)
    states, mask = states_and_mask()
    context = torch.randn(2, D, dtype=torch.float64)
    left, values, right = torch.linalg.svd(full.weight.detach())
    assert low.project is not None
    assert full.project is not None
    low.project.load_state_dict(full.project.state_dict())
    with torch.no_grad():  # W = U Σ Vᵀ = P Qᵀ with P = U Σ and Q = V
        low.p.weight.copy_((left * values).T)
        low.q.weight.copy_(right)

    torch.testing.assert_close(low(states, mask, context), full(states, mask, context))


def test_below_full_rank_the_factorised_head_differs() -> None:
    states, mask = states_and_mask()
    full = BilinearAttention(D, D, project=False).double()
    low = LowRankAttention(D, 1, D, rank=D - 1, project=False, tanh=False, l2=False).double()
    randomised(full)
    context = torch.randn(2, D, dtype=torch.float64)
    left, values, right = torch.linalg.svd(full.weight.detach())
    with torch.no_grad():
        low.p.weight.copy_((left * values).T[:-1])
        low.q.weight.copy_(right[:-1])

    assert not torch.allclose(low(states, mask, context)[1], full(states, mask, context)[1])


@pytest.mark.parametrize("project", [True, False])
def test_the_bilinear_head_is_the_papers(project: bool) -> None:
    layer = frozen(BilinearAttention(D, E, project=project))
    states, mask = states_and_mask()
    context = torch.randn(2, E, dtype=torch.float64)

    embedding, weights = layer(states, mask, context)

    for text, words in enumerate([5, 3]):
        scores = []
        for word in states[text, :words]:
            u = word_by_the_book(layer, word)
            scores.append(
                sum(
                    float(context[text, i]) * float(layer.weight[i, j]) * u[j]
                    for i in range(E)
                    for j in range(D)
                )
            )
        total = sum(math.exp(f) for f in scores)
        expected = [[math.exp(f) / total for f in scores]]
        torch.testing.assert_close(weights[text, :, :words], torch.tensor(expected).double())
        torch.testing.assert_close(
            embedding[text], embedding_by_the_book(expected, states[text, :words])
        )


def test_structured_attention_is_lin_et_als() -> None:
    layer = frozen(StructuredAttention(D, M, hidden=7))
    states, mask = states_and_mask()

    embedding, weights = layer(states, mask)

    w1, w2 = layer.w1.weight.detach().numpy(), layer.w2.weight.detach().numpy()
    for text, words in enumerate([5, 3]):
        h = states[text, :words].numpy()
        scores = w2 @ torch.from_numpy(w1 @ h.T).tanh().numpy()  # (M, T)
        expected = torch.from_numpy(scores).exp()
        expected = expected / expected.sum(1, keepdim=True)
        torch.testing.assert_close(weights[text, :, :words], expected)
        torch.testing.assert_close(embedding[text], expected @ states[text, :words])


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "lama": lambda: LowRankAttention(D, M),
    "lama-ctx": lambda: LowRankAttention(D, M, E, rank=2, temperature=3.0),
    "lama-h": lambda: LowRankAttention(D, M, E, project=False, tanh=False, l2=False),
    "lama one head": lambda: LowRankAttention(D, 1, E, l2=False),
    "bilinear": lambda: BilinearAttention(D, E),
    "san": lambda: StructuredAttention(D, M, hidden=5),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_inputs_and_parameters_pass_gradcheck(name: str) -> None:
    layer = LAYERS[name]().double()
    randomised(layer)
    states, mask = states_and_mask()
    states = states.requires_grad_()
    context = torch.randn(2, E, dtype=torch.float64, requires_grad=True)
    names = [key for key, _ in layer.named_parameters()]

    def run(states: Tensor, context: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        outputs: tuple[Tensor, Tensor] = torch.func.functional_call(
            layer, dict(zip(names, parameters, strict=True)), (states, mask, context)
        )
        return outputs

    assert torch.autograd.gradcheck(run, (states, context, *layer.parameters()))


@pytest.mark.parametrize("name", LAYERS)
def test_every_parameter_is_used(name: str) -> None:
    layer = LAYERS[name]().double()
    states, mask = states_and_mask()

    embedding, weights = layer(states, mask, torch.randn(2, E).double())
    (embedding.square().sum() + weights.square().sum()).backward()

    for key, parameter in layer.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_zero_in_padding_and_sum_to_one(name: str) -> None:
    layer = LAYERS[name]()
    states, mask = states_and_mask()

    _, weights = layer(states.float(), mask, torch.randn(2, E))

    assert weights[1, :, 3:].eq(0).all()
    assert weights[:, :, :3].gt(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("heads", [1, 2, 15])
def test_a_head_costs_two_thin_matrices(heads: int, rank: int) -> None:
    def count(layer: nn.Module) -> int:
        return sum(parameter.numel() for parameter in layer.parameters())

    one_less, learned = (
        LowRankAttention(100, m, rank=rank, temperature=2.0) for m in (heads, heads + 1)
    )
    given = LowRankAttention(100, heads, 30, rank=rank)
    bare = LowRankAttention(100, heads, 30, rank=rank, project=False)

    assert count(learned) - count(one_less) == 2 * 100 * rank + 1  # and its temperature
    assert count(bare) == heads * (30 * rank + 100 * rank)
    assert count(given) == count(bare) + 100 * 100 + 100
    assert count(LowRankAttention(100, heads)) == 2 * 100 * heads + 100 * 100 + 100 + 100
    assert count(StructuredAttention(100, heads)) == 350 * 100 + heads * 350
    assert count(BilinearAttention(100, 30)) == 30 * 100 + 100 * 100 + 100


def test_the_word_layer_starts_from_the_papers_gaussian() -> None:
    torch.manual_seed(0)

    layer = LowRankAttention(200, 2).project

    assert layer is not None
    for values in (layer.weight.detach(), layer.bias.detach()):
        assert abs(float(values.mean())) < 0.02
        assert float(values.std()) == pytest.approx(0.1, rel=0.12)


def test_the_learned_context_starts_with_unit_length() -> None:
    torch.manual_seed(0)

    context = LowRankAttention(2000, 1).context

    assert context is not None
    assert float(context.detach().norm()) == pytest.approx(1, rel=0.1)


def test_the_temperature_starts_at_the_given_value() -> None:
    plain, hot = LowRankAttention(D, M, l2=False), LowRankAttention(D, M, l2=False, temperature=8.0)
    hot.load_state_dict(plain.state_dict(), strict=False)
    states, _ = states_and_mask()

    torch.testing.assert_close(hot.scores(states.float()), 8 * plain.scores(states.float()))


def test_l2_with_one_head_leaves_only_the_sign_and_no_gradient() -> None:
    layer = LowRankAttention(D, 1).double()
    states, mask = states_and_mask()

    torch.testing.assert_close(layer.scores(states).abs(), torch.ones(2, T, 1).double())
    layer(states, mask)[0].sum().backward()
    assert layer.p.weight.grad is not None
    assert layer.p.weight.grad.abs().max() < 1e-12


def test_l2_divides_by_the_norm_and_keeps_zero() -> None:
    scores = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)

    unit = l2_normalized(scores)
    (gradient,) = torch.autograd.grad(unit.sum(), scores)

    torch.testing.assert_close(unit, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    assert gradient[1].eq(0).all()  # x / max(‖x‖, ε) would give 1/ε here
    torch.testing.assert_close(
        gradient[0], torch.tensor([0.2 - 0.6 * 1.4 / 5, 0.2 - 0.8 * 1.4 / 5])
    )


def test_the_masked_softmax_is_zero_off_the_mask() -> None:
    weights = masked_softmax(torch.tensor([[1.0, 2.0, 50.0]]), torch.tensor([[True, True, False]]))

    torch.testing.assert_close(
        weights, torch.tensor([[1 / (1 + math.e), math.e / (1 + math.e), 0.0]])
    )
    assert weights[0, 2] == 0


def test_kernel_parameters_follow_parametrised_and_replaced_weights() -> None:
    layer = LowRankAttention(D, M, E)
    nn.utils.parametrizations.weight_norm(layer.p)
    layer.q.weight = nn.Parameter(torch.ones(M, D))
    parameters = layer.kernel_parameters(torch.zeros(2, E))

    assert torch.equal(parameters.p, layer.p.weight)
    assert parameters.q is layer.q.weight
    assert parameters.w is not None
    assert parameters.b is not None
    assert LowRankAttention(D, M, E, project=False).kernel_parameters(torch.zeros(2, E)).w is None


@pytest.mark.parametrize("layer", [LowRankAttention(D, M, E), BilinearAttention(D, E)])
def test_a_missing_context_is_an_error(layer: nn.Module) -> None:
    states, mask = states_and_mask()

    with pytest.raises(ConfigError, match=r"it needs a context \(B, E\), one row per text: attend"):
        layer(states.float(), mask)


PUBLIC = [LowRankAttention(D, M, E), BilinearAttention(D, E), StructuredAttention(D, M)]


@pytest.mark.parametrize("layer", PUBLIC)
@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (
            torch.ones(2, T, dtype=torch.int64),
            r"bool of shape \(2, 5\), .* got torch\.int64 .*\.bool",
        ),
        (torch.ones(2, T), r"got torch\.float32 of shape \(2, 5\)"),
        (torch.ones(2, T - 1).bool(), r"got torch\.bool of shape \(2, 4\)"),
        (torch.ones(1, T).bool(), r"got torch\.bool of shape \(1, 5\)"),
        (torch.ones(2, T, device="meta").bool(), "mask is on meta, but states are on cpu"),
    ],
)
def test_a_mask_of_wrong_dtype_or_shape_is_an_error(
    layer: nn.Module, mask: Tensor, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        layer(torch.randn(2, T, D), mask, torch.randn(2, E))


@pytest.mark.parametrize("layer", PUBLIC)
@pytest.mark.parametrize("shape", [(2, T, D + 1), (T, D)])
def test_states_of_wrong_width_are_an_error(layer: nn.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=rf"states must be \(B, T, {D}\), got \({shape[0]}, "):
        layer(torch.randn(shape), torch.ones(shape[:-1]).bool(), torch.randn(2, E))


@pytest.mark.parametrize("shape", [(2, E + 1), (1, E), (3, E), (E,), (2, 1, E)])
def test_a_context_of_wrong_shape_is_an_error(shape: tuple[int, ...]) -> None:
    states, mask = states_and_mask()

    with pytest.raises(ConfigError, match=rf"context must be \(2, {E}\), one row per text, got"):
        LowRankAttention(D, M, E)(states.float(), mask, torch.randn(shape))


@pytest.mark.parametrize("heads", [0, -1])
def test_less_than_one_head_is_an_error(heads: int) -> None:
    with pytest.raises(ConfigError, match=rf"heads \({heads}\) must be at least 1"):
        LowRankAttention(D, heads)
    with pytest.raises(ConfigError, match=rf"heads \({heads}\) must be at least 1"):
        StructuredAttention(D, heads)


def test_a_rank_outside_one_to_the_smaller_width_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"rank \(0\) must be at least 1"):
        LowRankAttention(D, M, rank=0)
    with pytest.raises(ConfigError, match=r"rank \(5\) must be at most the smaller .* \(4\)"):
        LowRankAttention(D, M, E, rank=5)
    assert LowRankAttention(D, M, rank=D).rank == D


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_of_zero_or_less_is_an_error(temperature: float) -> None:
    with pytest.raises(ConfigError, match=rf"temperature \({temperature}\) must be above 0"):
        LowRankAttention(D, M, temperature=temperature)
