"""The fused attention against the plain layer in float64.

On a GPU the compiled kernel runs; without one Triton's interpreter runs the same code on the CPU,
and without Triton those tests are skipped.
"""

import importlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from lamatext.errors import ConfigError
from lamatext.kernels import attention, attention_launch
from lamatext.kernels.attention import PART, SWITCH, agrees, can_run, fused_attention, in_parts
from lamatext.kernels.attention_gradients import Form, gradients
from lamatext.kernels.attention_launch import JOINED_AT_ONCE, plan_for, share_out
from lamatext.nn import LowRankAttention
from lamatext.nn.attention import masked_softmax

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
TRITON = importlib.util.find_spec("triton") is not None

kernel = pytest.mark.skipif(not TRITON, reason="needs Triton; pip install triton")
on_gpu = pytest.mark.skipif(not (GPU and TRITON), reason="needs an NVIDIA GPU with Triton")

Options = dict[str, bool | float | int | None]
OPTIONS: list[Options] = [
    dict(zip(("project", "tanh", "l2", "temperature"), values, strict=True))
    for values in product((True, False), (True, False), (True, False), (None, 8.0))
]


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU Triton's interpreter runs the kernels; it is asked for before the import."""
    if GPU or not TRITON:
        return
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang_tensor

    def with_numbers(tensor: object, scope: Any) -> None:
        """From NumPy 2.4 on ``int`` refuses the arrays of one element that it is given there."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", with_numbers)


class Case:
    """A layer with random weights, a batch of ragged texts and the answer in float64."""

    def __init__(self, lengths: list[int], *, width: int = 100, heads: int = 15, **options: object):
        torch.manual_seed(sum(lengths) + width + heads)
        learned = bool(options.pop("learned", False))
        given = int(str(options.pop("context_width", 100)))
        context_width = None if learned else given
        layer = LowRankAttention(width, heads, context_width, **options)  # type: ignore[arg-type]
        words = max(lengths)
        states = torch.randn(len(lengths), words, width, dtype=torch.float64) / 2
        self.mask = torch.arange(words) < torch.tensor(lengths)[:, None]
        context = None if learned else torch.randn(len(lengths), context_width or 1).double()
        self.layer, self.states, self.context = layer.double(), states, context

    def plain(self) -> tuple[Tensor, Tensor]:
        """By the equation, in float64 on the CPU."""
        scores = self.layer.scores(self.states, self.context)
        weights = masked_softmax(scores.transpose(1, 2), self.mask[:, None, :])
        return weights @ self.states, weights

    def to(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Form]:
        """The arguments of the fused one."""
        states, mask = self.states.to(DEVICE, dtype), self.mask.to(DEVICE)
        given = None if self.context is None else self.context
        form = self.layer.form(given)
        moved: dict[str, Any] = {
            name: part.detach().to(DEVICE, dtype)
            for name, part in form._asdict().items()
            if isinstance(part, Tensor)
        }
        return states, mask, form._replace(**moved)


def error(found: Tensor, expected: Tensor) -> float:
    """‖found − expected‖ / ‖expected‖."""
    found, expected = found.detach().cpu().double(), expected.detach()
    return float((found - expected).norm() / expected.norm())


def check(case: Case, dtype: torch.dtype = torch.float32, most: float = 5e-5) -> None:
    embedding, weights = case.plain()
    with torch.no_grad():
        found, shares = fused_attention(*case.to(dtype))
    assert found.dtype == shares.dtype == dtype
    assert error(found, embedding) < most
    assert error(shares, weights) < most
    assert shares.cpu()[~case.mask[:, None, :].expand_as(weights)].eq(0).all()


@kernel
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_fused_gives_what_the_plain_layer_gives_for_every_choice_of_the_equation(
    options: Options,
) -> None:
    check(Case([1, 70, 130], width=20, heads=5, **options))


@kernel
@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("learned", [True, False])
def test_fused_folds_any_rank_with_a_given_or_a_learned_context(rank: int, learned: bool) -> None:
    check(Case([33, 64], width=24, heads=3, rank=rank, learned=learned, context_width=40))


@kernel
@pytest.mark.parametrize("lengths", [[1], [64], [65], [3, 200, 1], [250] * 3, [1000]])
def test_fused_gives_what_the_plain_layer_gives_at_the_papers_sizes(lengths: list[int]) -> None:
    check(Case(lengths))


@kernel
def test_the_second_launch_covers_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_launch, "JOINED_AT_ONCE", 100)
    monkeypatch.setattr(attention_launch, "SPAN", 64)
    monkeypatch.setattr(attention_launch, "plan_for", plan_for.__wrapped__)
    case = Case([700, 300], temperature=8.0)
    plan = plan_for.__wrapped__(
        case.states.shape, torch.Size([15, 100]), 2, 15, True, True, True, True, DEVICE
    )
    assert plan.combine is not None

    check(case)


@kernel
def test_words_may_be_masked_anywhere() -> None:
    case = Case([200, 150])
    case.mask &= torch.rand(case.mask.shape) < 0.5
    case.mask[0, :128] = False  # two whole blocks
    case.mask[:, 140] = True

    check(case)


@kernel
def test_a_state_of_zeros_scores_zero_as_in_the_plain_layer() -> None:
    case = Case([40], project=False)
    case.states[0, 7] = 0.0

    check(case)


@kernel
@pytest.mark.parametrize("width", [1, 16, 50, 128])
@pytest.mark.parametrize("heads", [1, 16, 31])
def test_fused_takes_any_width_and_number_of_heads(width: int, heads: int) -> None:
    check(Case([90, 2], width=width, heads=heads, context_width=7))


@on_gpu  # the interpreter has no bfloat16
def test_fused_takes_bfloat16() -> None:
    check(Case([250, 31]), torch.bfloat16, most=2e-2)
    check(Case([20_000]), torch.bfloat16, most=2e-2)


@kernel
def test_fused_takes_states_that_do_not_lie_end_to_end() -> None:
    case = Case([80, 10])
    states, mask, form = case.to(torch.float32)
    apart = states.transpose(0, 1).contiguous().transpose(0, 1)

    with torch.no_grad():
        found, _ = fused_attention(apart, mask, form)

    assert error(found, case.plain()[0]) < 5e-5


@kernel
def test_a_kernel_that_goes_wrong_at_first_use_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert agrees(DEVICE)

    def wrong(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
        return states.new_zeros(len(states), form.heads, states.shape[2]), mask

    monkeypatch.setattr(attention, "launch", wrong)
    assert not agrees(DEVICE)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A GPU to whose first try of the kernel the test gives the answer."""
    answers, memory = Mock(), SimpleNamespace(shared_memory_per_block_optin=attention.MEMORY)
    monkeypatch.setattr(importlib.util, "find_spec", Mock(return_value="there"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", Mock(return_value=memory))
    monkeypatch.setattr(attention, "agrees", answers)
    return answers


@pytest.mark.parametrize("wrong", [RuntimeError("no compiler"), False])
def test_a_kernel_that_does_not_work_is_told_of_and_left_out(
    tried: Mock, wrong: RuntimeError | bool
) -> None:
    tried.side_effect = [wrong]

    with pytest.warns(UserWarning, match="no compiler" if wrong else "other numbers"):
        assert not attention._works.__wrapped__(torch.device("cuda", 0))


def test_a_kernel_that_works_is_taken(tried: Mock) -> None:
    tried.side_effect = [True]

    assert attention._works.__wrapped__(torch.device("cuda", 0))


def leaves_of(form: Form) -> list[Tensor]:
    return [part for part in form if isinstance(part, Tensor)]


@kernel
@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("through", ["embedding", "weights", "both"])
def test_gradients_are_those_of_the_plain_layer(learned: bool, through: str) -> None:
    case = Case([70, 5], width=20, heads=4, rank=2, learned=learned, temperature=3.0)
    generator = torch.Generator().manual_seed(1)
    d_embedding = torch.randn(2, 4, 20, generator=generator) * (through != "weights")
    d_weights = torch.randn(2, 4, 70, generator=generator) * (through != "embedding")

    def loss(embedding: Tensor, weights: Tensor) -> Tensor:
        total = (embedding * d_embedding.to(embedding)).sum()
        return total + (weights * d_weights.to(weights)).sum()

    case.states.requires_grad_()
    if case.context is not None:
        case.context.requires_grad_()
    expected = torch.autograd.grad(
        loss(*case.plain()), [case.states, *leaves_of(case.layer.form(case.context))]
    )
    states, mask, form = case.to(torch.float32)
    leaves = [states.detach().requires_grad_(), *(x.requires_grad_() for x in leaves_of(form))]
    found = torch.autograd.grad(loss(*fused_attention(leaves[0], mask, form)), leaves)
    for ours, theirs in zip(found, expected, strict=True):
        assert error(ours, theirs) < 2e-4


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_the_written_gradients_are_those_of_autograd(options: Options) -> None:
    case = Case([6, 3], width=5, heads=3, context_width=4, rank=2, **options)
    case.states.requires_grad_()
    embedding, weights = case.plain()
    form = case.layer.form(case.context)
    wanted = torch.randn_like(embedding)
    leaves = [case.states, *(part for part in form[:6] if part is not None)]
    leaves[-1 if form.log_temperature is None else -2].requires_grad_()
    embedding, weights = case.plain()
    expected = torch.autograd.grad(embedding, leaves, wanted)

    with torch.no_grad():
        through = wanted @ case.states.transpose(1, 2)
        found = gradients(case.states, weights, form, through, wanted)

    for ours, theirs in zip([x for x in found if x is not None], expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-6)


@on_gpu
def test_the_layer_takes_the_kernel_on_a_gpu_and_the_switch_turns_it_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states, _, form = Case([10]).to(torch.float32)
    assert can_run(states, form)
    monkeypatch.setenv(SWITCH, "plain")
    assert not can_run(states, form)


@on_gpu
@pytest.mark.parametrize("words", [1024, JOINED_AT_ONCE, 100_000])
def test_long_texts_are_right_on_the_gpu_time_after_time(words: int) -> None:
    case = Case([words, words // 2], temperature=8.0)
    states, mask, form = case.to(torch.float32)
    embedding, weights = case.plain()
    with torch.no_grad():
        for _ in range(20):
            found, shares = fused_attention(states, mask, form)
            assert error(found, embedding) < 5e-5
            assert error(shares, weights) < 5e-5


@on_gpu
def test_threads_do_not_write_into_each_others_sums() -> None:
    cases = [Case([5000 + 64 * n], temperature=8.0) for n in range(4)]
    answers = [case.plain()[0] for case in cases]

    def worst(n: int) -> float:
        given = cases[n].to(torch.float32)
        with torch.no_grad():
            return max(error(fused_attention(*given)[0], answers[n]) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(worst, range(4))) < 5e-5


@on_gpu
def test_states_anywhere_in_memory_are_right_on_the_gpu() -> None:
    case = Case([400, 90])
    states, mask, form = case.to(torch.float32)
    for shift in (0, 1, 0, 3):  # numbers by which the states lie off a boundary of 16 bytes
        room = states.new_empty(states.numel() + shift)
        moved = room[shift:].view_as(states).copy_(states)
        with torch.no_grad():
            found, _ = fused_attention(moved, mask, form)
        assert error(found, case.plain()[0]) < 5e-5


@on_gpu
def test_what_lies_on_the_processor_never_reaches_the_gpu() -> None:
    case = Case([40, 9])
    layer, states = case.layer.float().cuda(), case.states.float().cuda()
    mask, context = case.mask.cuda(), case.context
    assert context is not None
    with torch.no_grad():
        for _ in range(2):
            layer(states, mask, context.float().cuda())

        with pytest.raises(ConfigError, match="mask is on cpu, and states are on cuda"):
            layer(states, case.mask, context.float().cuda())
        with pytest.raises(RuntimeError, match="same device"):
            layer(states, mask, context.float())


@on_gpu
def test_random_lengths_are_right_on_the_gpu() -> None:
    generator = torch.Generator().manual_seed(0)
    for texts in (1, 2, 7, 32, 300):
        lengths = torch.randint(1, 600, (texts,), generator=generator).tolist()
        check(Case(lengths))


def test_the_kernel_is_left_out_on_a_cpu_and_in_float64() -> None:
    case = Case([5])
    assert not can_run(torch.zeros(1, 5, 100), case.layer.form(case.context))


@pytest.mark.parametrize("texts", [1, 32, 1000])
@pytest.mark.parametrize("words", [1, 64, 1000, 8193, 1_000_000])
def test_chunks_cover_every_word_once(texts: int, words: int) -> None:
    chunk, chunks = share_out(texts, words, 132)

    assert chunk % attention_launch.BLOCK == 0
    assert (chunks - 1) * chunk < words <= chunks * chunk
    assert chunks == 1 or chunks * texts <= 2 * 132


def test_long_texts_are_scored_in_parts_only_without_gradients() -> None:
    sizes: list[int] = []

    def score(part: Tensor) -> Tensor:
        sizes.append(part.shape[1])
        return part.sum(-1, keepdim=True)

    states = torch.randn(1, PART + 5, 3)
    whole = in_parts(score, states)
    with torch.no_grad():
        torch.testing.assert_close(in_parts(score, states), whole)

    assert sizes == [PART + 5, PART, 5]
