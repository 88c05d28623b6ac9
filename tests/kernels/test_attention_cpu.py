"""The CPU attention kernel against the plain layer, and the choice between the two."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor

from lamatext.kernels import attention_dispatch
from lamatext.kernels.attention_dispatch import (
    PART,
    SWITCH,
    attention_kernel,
    score_in_parts,
)
from lamatext.kernels.kernel_threads import kernel_threads
from lamatext.nn.attention import LowRankAttention

pytest.importorskip("numba")


@contextmanager
def plain() -> Iterator[None]:
    """Disable the attention kernels inside the block."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "plain"
    try:
        yield
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before


def batch(
    layer: LowRankAttention, texts: int, words: int, seed: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return states, a mask with gaps, and a context if the layer needs one."""
    torch.manual_seed(seed)
    dtype, width = layer.q.weight.dtype, layer.q.in_features
    states = torch.randn(texts, words, width, dtype=dtype, requires_grad=True)
    mask = torch.rand(texts, words) < 0.7
    mask[:, seed % words] = True  # every text has a word
    if layer.context is not None:
        return states, mask, None
    return states, mask, torch.randn(texts, layer.p.in_features, dtype=dtype, requires_grad=True)


def outcome(
    layer: LowRankAttention, given: tuple[Tensor, Tensor, Tensor | None], *, of_weights: bool
) -> list[Tensor]:
    """Return S, A and all gradients."""
    states, _, context = given
    leaves = [states, *layer.parameters(), *([] if context is None else [context])]
    embedding, weights = layer(*given)
    torch.manual_seed(0)
    score = (embedding * torch.randn_like(embedding)).sum()
    if of_weights:
        score = score + (weights * torch.randn_like(weights)).sum()
    return [embedding, weights, *torch.autograd.grad(score, leaves)]


FORMS = [
    {"context_width": 4},
    {"context_width": 6, "rank": 2, "temperature": 3.0},
    {"context_width": None, "temperature": 0.5},
    {"context_width": 4, "l2": False},
    {"context_width": 4, "tanh": False},
    {"context_width": None, "tanh": False, "l2": False, "temperature": 2.0},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("of_weights", [True, False])
def test_outputs_and_gradients_match_the_plain_layer(
    form: dict[str, object], of_weights: bool
) -> None:
    draw = np.random.default_rng(0)
    for seed in range(6):
        width, heads, texts, words = (int(n) for n in draw.integers((6, 1, 1, 1), (20, 20, 12, 30)))
        torch.manual_seed(seed)
        layer = LowRankAttention(width, heads, **form).double()  # type: ignore[arg-type]
        given = batch(layer, texts, words, seed)
        assert attention_kernel(given[0], layer.kernel_parameters(given[2])) is not None

        found = outcome(layer, given, of_weights=of_weights)
        with plain():
            expected = outcome(layer, given, of_weights=of_weights)

        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_gradients_pass_gradcheck() -> None:
    torch.manual_seed(0)
    layer = LowRankAttention(5, 3, 4, temperature=2.0).double()
    states, mask, context = batch(layer, 3, 4, 0)
    assert context is not None

    assert torch.autograd.gradcheck(lambda h, c: layer(h, mask, c), (states, context))


def test_single_precision_matches_the_plain_layer_up_to_rounding() -> None:
    torch.manual_seed(0)
    layer = LowRankAttention(100, 15, 100)
    given = batch(layer, 9, 40, 0)

    found = outcome(layer, given, of_weights=True)
    with plain():
        expected = outcome(layer, given, of_weights=True)

    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-4)


def test_a_word_whose_scores_are_all_zero_changes_nothing() -> None:
    layer = LowRankAttention(4, 3, 4).double()
    states, mask, context = batch(layer, 2, 3, 0)
    assert context is not None
    given = states, mask, context.detach().zero_().requires_grad_()

    found = outcome(layer, given, of_weights=True)

    assert all(tensor.isfinite().all() for tensor in found)
    torch.testing.assert_close(found[1][0, 0], mask[0].double() / mask[0].sum())


def test_the_number_of_threads_changes_no_bit() -> None:
    layer = LowRankAttention(20, 5, 6)
    given = batch(layer, 21, 17, 0)

    results = []
    for threads in (1, 2, 5):
        with kernel_threads(threads):
            results.append(outcome(layer, given, of_weights=True))

    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_backward_may_run_twice() -> None:
    layer = LowRankAttention(5, 3, 4)
    states, mask, context = batch(layer, 3, 4, 0)
    embedding, _ = layer(states, mask, context)

    first, again = (
        torch.autograd.grad(embedding.sum(), states, retain_graph=True)[0] for _ in range(2)
    )

    assert torch.equal(first, again)


def test_tensors_that_the_kernel_does_not_support_use_the_plain_equation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = LowRankAttention(4, 2, 4)
    states, _, context = batch(layer, 2, 3, 0)
    parameters = layer.kernel_parameters(context)
    unprojected = LowRankAttention(4, 2, 4, project=False).kernel_parameters(context)

    assert attention_kernel(states, parameters) is not None
    assert attention_kernel(states.double(), parameters) is None
    assert attention_kernel(states, unprojected) is None
    assert attention_kernel(torch.empty(1, 5000, 4), parameters) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert attention_kernel(states, parameters) is None
    monkeypatch.setenv(SWITCH, "plain")
    assert attention_kernel(states, parameters) is None


def test_without_numba_the_plain_equation_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = LowRankAttention(4, 2, 4)
    states, _, context = batch(layer, 2, 3, 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    assert attention_kernel(states, layer.kernel_parameters(context)) is None


@pytest.mark.parametrize("torch_has_the_query", [True, False])
def test_torch_func_transforms_use_the_plain_equation(
    monkeypatch: pytest.MonkeyPatch, torch_has_the_query: bool
) -> None:
    layer = LowRankAttention(4, 2, 4)
    states, mask, context = batch(layer, 2, 3, 0)
    expected = torch.autograd.grad(layer(states, mask, context)[0].sum(), states)[0]
    if not torch_has_the_query:  # torch itself needs it, so only our lookup of it fails
        monkeypatch.setattr(attention_dispatch, "FUNCTORCH_QUERY", "missing")

    result = torch.func.grad(lambda h: layer(h, mask, context)[0].sum())(states.detach())

    torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-4)
    assert attention_kernel(states, layer.kernel_parameters(context)) is not None


def test_a_tensor_without_storage_uses_the_plain_equation() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        embedding, _ = LowRankAttention(4, 2)(
            torch.empty(5, 3, 4), torch.ones(5, 3, dtype=torch.bool)
        )

    assert embedding.shape == (5, 2, 4)


def test_long_texts_are_scored_in_parts_only_without_gradients() -> None:
    sizes: list[int] = []

    def score(part: Tensor) -> Tensor:
        sizes.append(part.shape[1])
        return part.sum(-1, keepdim=True)

    states = torch.randn(1, PART + 5, 3)
    whole = score_in_parts(score, states)
    with torch.no_grad():
        torch.testing.assert_close(score_in_parts(score, states), whole)

    assert sizes == [PART + 5, PART, 5]
