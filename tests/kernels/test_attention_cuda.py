"""The Triton attention kernel against the plain layer in float64.

On a GPU the compiled kernel runs. Without one, Triton's interpreter runs the same code on the CPU;
without Triton, those tests are skipped.
"""

import importlib
import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

import lamatext.kernels
from lamatext.errors import ConfigError
from lamatext.kernels import attention_cuda
from lamatext.kernels.attention_cuda import (
    SINGLE_LAUNCH_WORDS,
    agrees_with_reference,
    attention_gradients,
    can_run,
    cuda_attention,
    plan_for,
    split_into_chunks,
)
from lamatext.kernels.attention_dispatch import SWITCH, AttentionParameters, attention_kernel
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
    """Without a GPU, enable Triton's interpreter before the kernel module is imported."""
    if GPU or not TRITON:
        return
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang_tensor

    def with_numbers(tensor: object, scope: Any) -> None:
        """Add ``__index__``: since NumPy 2.4 ``int`` rejects the one-element arrays used there."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", with_numbers)


class Case:
    """A layer with random weights, a batch of texts of different lengths, the result in float64."""

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
        """Compute the plain equation in float64 on the CPU."""
        scores = self.layer.scores(self.states, self.context)
        weights = masked_softmax(scores.transpose(1, 2), self.mask[:, None, :])
        return weights @ self.states, weights

    def to(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, AttentionParameters]:
        """Return the arguments of the Triton kernel."""
        states, mask = self.states.to(DEVICE, dtype), self.mask.to(DEVICE)
        parameters = self.layer.kernel_parameters(self.context)
        moved: dict[str, Any] = {
            name: part.detach().to(DEVICE, dtype)
            for name, part in parameters._asdict().items()
            if isinstance(part, Tensor)
        }
        return states, mask, parameters._replace(**moved)


def error(found: Tensor, expected: Tensor) -> float:
    """‖found − expected‖ / ‖expected‖."""
    found, expected = found.detach().cpu().double(), expected.detach()
    return float((found - expected).norm() / expected.norm())


def check(case: Case, dtype: torch.dtype = torch.float32, most: float = 5e-5) -> None:
    embedding, weights = case.plain()
    with torch.no_grad():
        found, shares = cuda_attention(*case.to(dtype))
    assert found.dtype == shares.dtype == dtype
    assert error(found, embedding) < most
    assert error(shares, weights) < most
    assert shares.cpu()[~case.mask[:, None, :].expand_as(weights)].eq(0).all()


@kernel
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_kernel_matches_the_plain_layer_for_every_option(
    options: Options,
) -> None:
    check(Case([1, 70, 130], width=20, heads=5, **options))


@kernel
@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("learned", [True, False])
def test_kernel_matches_for_any_rank_with_a_passed_or_learned_context(
    rank: int, learned: bool
) -> None:
    check(Case([33, 64], width=24, heads=3, rank=rank, learned=learned, context_width=40))


@kernel
@pytest.mark.parametrize("lengths", [[1], [64], [65], [3, 200, 1], [250] * 3, [1000]])
def test_kernel_matches_the_plain_layer_at_the_papers_sizes(lengths: list[int]) -> None:
    check(Case(lengths))


@kernel
def test_the_second_launch_covers_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_cuda, "SINGLE_LAUNCH_WORDS", 100)
    monkeypatch.setattr(attention_cuda, "SPAN", 64)
    monkeypatch.setattr(attention_cuda, "plan_for", plan_for.__wrapped__)
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
def test_kernel_supports_any_width_and_number_of_heads(width: int, heads: int) -> None:
    check(Case([90, 2], width=width, heads=heads, context_width=7))


@on_gpu  # the interpreter has no bfloat16
def test_kernel_supports_bfloat16() -> None:
    check(Case([250, 31]), torch.bfloat16, most=2e-2)
    check(Case([20_000]), torch.bfloat16, most=2e-2)


@kernel
def test_kernel_supports_states_that_are_not_contiguous() -> None:
    case = Case([80, 10])
    states, mask, parameters = case.to(torch.float32)
    apart = states.transpose(0, 1).contiguous().transpose(0, 1)

    with torch.no_grad():
        found, _ = cuda_attention(apart, mask, parameters)

    assert error(found, case.plain()[0]) < 5e-5


@kernel
def test_wrong_results_are_detected_at_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert agrees_with_reference(DEVICE)

    def wrong(
        states: Tensor, mask: Tensor, parameters: AttentionParameters
    ) -> tuple[Tensor, Tensor]:
        return states.new_zeros(len(states), parameters.heads, states.shape[2]), mask

    monkeypatch.setattr(attention_cuda, "launch", wrong)
    assert not agrees_with_reference(DEVICE)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Pretend to have a GPU; the test decides whether the kernel works there."""
    answers, memory = (
        Mock(),
        SimpleNamespace(shared_memory_per_block_optin=attention_cuda.SHARED_MEMORY),
    )
    monkeypatch.setattr(importlib.util, "find_spec", Mock(return_value="there"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", Mock(return_value=memory))
    monkeypatch.setattr(attention_cuda, "agrees_with_reference", answers)
    return answers


@pytest.mark.parametrize("wrong", [RuntimeError("no compiler"), False])
def test_a_kernel_that_fails_is_not_used_and_a_warning_says_why(
    tried: Mock, wrong: RuntimeError | bool
) -> None:
    tried.side_effect = [wrong]

    with pytest.warns(UserWarning, match="no compiler" if wrong else "results differ"):
        assert not attention_cuda._works.__wrapped__(torch.device("cuda", 0))


def test_a_kernel_that_works_is_used(tried: Mock) -> None:
    tried.side_effect = [True]

    assert attention_cuda._works.__wrapped__(torch.device("cuda", 0))


def leaves_of(parameters: AttentionParameters) -> list[Tensor]:
    return [part for part in parameters if isinstance(part, Tensor)]


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
        loss(*case.plain()), [case.states, *leaves_of(case.layer.kernel_parameters(case.context))]
    )
    states, mask, parameters = case.to(torch.float32)
    leaves = [
        states.detach().requires_grad_(),
        *(x.requires_grad_() for x in leaves_of(parameters)),
    ]
    found = torch.autograd.grad(loss(*cuda_attention(leaves[0], mask, parameters)), leaves)
    for ours, theirs in zip(found, expected, strict=True):
        assert error(ours, theirs) < 2e-4


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_the_explicit_gradients_are_those_of_autograd(options: Options) -> None:
    case = Case([6, 3], width=5, heads=3, context_width=4, rank=2, **options)
    case.states.requires_grad_()
    embedding, weights = case.plain()
    parameters = case.layer.kernel_parameters(case.context)
    wanted = torch.randn_like(embedding)
    leaves = [case.states, *(part for part in parameters[:6] if part is not None)]
    leaves[-1 if parameters.log_temperature is None else -2].requires_grad_()
    embedding, weights = case.plain()
    expected = torch.autograd.grad(embedding, leaves, wanted)

    with torch.no_grad():
        through = wanted @ case.states.transpose(1, 2)
        found = attention_gradients(case.states, weights, parameters, through, wanted)

    for ours, theirs in zip([x for x in found if x is not None], expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-6)


@on_gpu
def test_the_kernel_runs_on_a_gpu_unless_the_environment_disables_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states, _, parameters = Case([10]).to(torch.float32)
    assert attention_kernel(states, parameters) is cuda_attention
    monkeypatch.setenv(SWITCH, "plain")
    assert attention_kernel(states, parameters) is None


@on_gpu
@pytest.mark.parametrize("words", [1024, SINGLE_LAUNCH_WORDS, 100_000])
def test_long_texts_are_correct_on_the_gpu_repeatedly(words: int) -> None:
    case = Case([words, words // 2], temperature=8.0)
    states, mask, parameters = case.to(torch.float32)
    embedding, weights = case.plain()
    with torch.no_grad():
        for _ in range(20):
            found, shares = cuda_attention(states, mask, parameters)
            assert error(found, embedding) < 5e-5
            assert error(shares, weights) < 5e-5


@on_gpu
def test_threads_do_not_share_workspaces() -> None:
    cases = [Case([5000 + 64 * n], temperature=8.0) for n in range(4)]
    answers = [case.plain()[0] for case in cases]

    def worst(n: int) -> float:
        given = cases[n].to(torch.float32)
        with torch.no_grad():
            return max(error(cuda_attention(*given)[0], answers[n]) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(worst, range(4))) < 5e-5


@on_gpu
def test_unaligned_states_are_correct_on_the_gpu() -> None:
    case = Case([400, 90])
    states, mask, parameters = case.to(torch.float32)
    for shift in (0, 1, 0, 3):  # numbers by which the states lie off a boundary of 16 bytes
        room = states.new_empty(states.numel() + shift)
        moved = room[shift:].view_as(states).copy_(states)
        with torch.no_grad():
            found, _ = cuda_attention(moved, mask, parameters)
        assert error(found, case.plain()[0]) < 5e-5


@on_gpu
def test_tensors_on_the_cpu_never_reach_the_gpu_kernel() -> None:
    case = Case([40, 9])
    layer, states = case.layer.float().cuda(), case.states.float().cuda()
    mask, context = case.mask.cuda(), case.context
    assert context is not None
    with torch.no_grad():
        for _ in range(2):
            layer(states, mask, context.float().cuda())

        with pytest.raises(ConfigError, match="mask is on cpu, but states are on cuda"):
            layer(states, case.mask, context.float().cuda())
        with pytest.raises(RuntimeError, match="same device"):
            layer(states, mask, context.float())


@on_gpu
def test_random_lengths_are_correct_on_the_gpu() -> None:
    generator = torch.Generator().manual_seed(0)
    for texts in (1, 2, 7, 32, 300):
        lengths = torch.randint(1, 600, (texts,), generator=generator).tolist()
        check(Case(lengths))


def test_the_kernel_does_not_run_on_a_cpu() -> None:
    case = Case([5])
    assert not can_run(torch.zeros(1, 5, 100), case.layer.kernel_parameters(case.context))


@pytest.mark.parametrize("texts", [1, 32, 1000])
@pytest.mark.parametrize("words", [1, 64, 1000, 8193, 1_000_000])
def test_chunks_cover_every_word_once(texts: int, words: int) -> None:
    chunk, chunks = split_into_chunks(texts, words, 132)

    assert chunk % attention_cuda.BLOCK == 0
    assert (chunks - 1) * chunk < words <= chunks * chunk
    assert chunks == 1 or chunks * texts <= 2 * 132


class FakeKernel:
    """A stand-in for a Triton kernel that records whether the public or private call is used."""

    function = packed_metadata = "metadata"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.public

    def public(self, *_: object, **__: object) -> "FakeKernel":
        self.calls.append("public")
        return self

    def run(self, *arguments: object) -> None:
        assert arguments[:5] == (1, 2, 3, "stream 0", "metadata")
        self.calls.append("private")


@pytest.mark.parametrize(
    ("triton", "calls"),
    [
        ("3.2.0", ["public"] * 3),
        ("3.6.0", ["public", "private", "private"]),
        ("99.0.0+git", ["public"] * 3),
    ],
)
def test_the_private_launcher_is_used_only_with_known_versions_of_triton(
    monkeypatch: pytest.MonkeyPatch, triton: str, calls: list[str]
) -> None:
    kernel, states = FakeKernel(), torch.zeros(8)
    module = SimpleNamespace(attend=kernel)
    can_launch_directly = attention_cuda._can_launch_directly.__wrapped__
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=triton))
    monkeypatch.setitem(sys.modules, "lamatext.kernels.attention_triton", module)
    monkeypatch.setattr(lamatext.kernels, "attention_triton", module, raising=False)
    monkeypatch.setattr(attention_cuda, "_can_launch_directly", can_launch_directly)
    monkeypatch.setattr(
        attention_cuda, "_stream_query", lambda: lambda index: f"stream {index + 1}"
    )
    planned = attention_cuda.Launch("attend", (1, 2, 3), ())

    for _ in range(3):
        attention_cuda._start(planned, (states,), (states,))

    assert kernel.calls == calls


@pytest.mark.parametrize("direct", [True, False])
def test_the_stream_is_tritons_own_only_with_known_versions_of_triton(
    monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    active = SimpleNamespace(get_current_stream=lambda index: 10 + index)
    runtime = SimpleNamespace(driver=SimpleNamespace(active=active))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "triton.runtime", runtime)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda index: SimpleNamespace(cuda_stream=20 + index)
    )
    monkeypatch.setattr(attention_cuda, "_can_launch_directly", lambda: direct)

    assert attention_cuda._stream_query.__wrapped__()(1) == (11 if direct else 21)
