"""The CPU GRU kernel against torch's GRU, and the choice between the two."""

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lamatext.kernels import gru_cpu, numba_compat
from lamatext.kernels.gru_dispatch import (
    cpu_gru,
    packed_gru,
    plain_gru,
    run_gru,
    use_cpu_kernel,
)
from lamatext.kernels.numba_compat import compile_cpu_kernels, cpu_kernels_are_compiled

Case = tuple[nn.GRU, Tensor, Tensor]


def case(
    lengths: Sequence[int], width: int = 5, hidden: int = 3, dtype: torch.dtype = torch.float64
) -> Case:
    torch.manual_seed(0)
    layer = nn.GRU(width, hidden, batch_first=True, bidirectional=True, dtype=dtype)
    inputs = torch.randn(len(lengths), max(lengths), width, dtype=dtype, requires_grad=True)
    return layer, inputs, torch.tensor(lengths)


def fast(layer: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    return cpu_gru(inputs, lengths, list(layer.parameters()))


def states_and_gradients(layer: nn.GRU, inputs: Tensor, states: Tensor) -> list[Tensor]:
    """The states, then the gradients of inputs and parameters for a fixed gradient of states."""
    given = torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view_as(states).sin()
    return [states.detach(), *torch.autograd.grad(states, [inputs, *layer.parameters()], given)]


def both(layer: nn.GRU, inputs: Tensor, lengths: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    return (
        states_and_gradients(layer, inputs, fast(layer, inputs, lengths)),
        states_and_gradients(layer, inputs, plain_gru(layer, inputs, lengths)),
    )


@pytest.mark.parametrize(
    "lengths",
    [[1], [9], [3, 1, 7, 7, 2], [1, 1, 1], list(range(1, 14)), [70, 150, 65, 64, 1, 2, 3, 63, 128]],
    ids=str,
)
@pytest.mark.parametrize(("width", "hidden"), [(1, 1), (5, 3), (8, 16), (13, 27)])
def test_states_and_gradients_are_those_of_torch(
    lengths: list[int], width: int, hidden: int
) -> None:
    ours, theirs = both(*case(lengths, width, hidden))

    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes_agree_with_torch(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    texts, longest, width, hidden = torch.randint(1, 40, (4,), generator=random).tolist()
    lengths = torch.randint(1, longest + 1, (texts,), generator=random).tolist()

    ours, theirs = both(*case(lengths, width, hidden))

    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_single_precision_is_accurate_to_1e_5_at_the_papers_size() -> None:
    random = torch.Generator().manual_seed(1)
    lengths = torch.randint(50, 201, (32,), generator=random).tolist()

    ours, theirs = both(*case(lengths, 100, 50, torch.float32))

    for mine, reference in zip(ours, theirs, strict=True):
        scale = float(reference.abs().max().clamp(min=1))
        torch.testing.assert_close(mine / scale, reference / scale, rtol=0, atol=1e-5)


def test_large_inputs_saturate_as_they_do_in_torch() -> None:
    layer, inputs, lengths = case([4, 2], dtype=torch.float32)

    for scale in (30.0, 1e30):
        torch.testing.assert_close(
            fast(layer, inputs * scale, lengths), plain_gru(layer, inputs * scale, lengths)
        )


def test_nan_propagates_as_in_torch() -> None:
    layer, inputs, lengths = case([4], dtype=torch.float32)
    with torch.no_grad():
        inputs[0, 1, 2] = torch.nan

    states = fast(layer, inputs, lengths)

    torch.testing.assert_close(
        states.isnan(), plain_gru(layer, inputs, lengths).isnan(), rtol=0, atol=0
    )


def test_gradients_pass_gradcheck() -> None:
    layer, inputs, lengths = case([3, 1, 4, 2, 2])
    parameters = list(layer.parameters())

    assert torch.autograd.gradcheck(
        lambda inputs, *parameters: cpu_gru(inputs, lengths, parameters), (inputs, *parameters)
    )


def test_padding_has_no_effect_and_no_gradient() -> None:
    layer, inputs, lengths = case([2, 6, 3])
    words = torch.arange(6) < lengths[:, None]
    noisy = inputs.detach().masked_fill(~words[..., None], torch.nan).requires_grad_()

    clean = states_and_gradients(layer, inputs, fast(layer, inputs, lengths))
    ours = states_and_gradients(layer, noisy, fast(layer, noisy, lengths))

    torch.testing.assert_close(ours, clean, rtol=0, atol=0)
    assert ours[0][~words].eq(0).all()
    assert ours[1][~words].eq(0).all()


def test_more_padding_than_the_longest_text_needs_is_allowed() -> None:
    layer, inputs, _ = case([7, 7])

    ours, theirs = both(layer, inputs, torch.tensor([3, 5]))

    assert ours[0].shape == (2, 7, 6)
    torch.testing.assert_close(ours, theirs)


def test_a_text_alone_and_in_a_batch_has_the_same_states() -> None:
    layer, inputs, lengths = case([5, 9, 2, 7, 8, 1], dtype=torch.float32)

    together = fast(layer, inputs, lengths)

    for text, length in enumerate(lengths.tolist()):
        alone = fast(layer, inputs[text : text + 1, :length], lengths[text : text + 1])
        torch.testing.assert_close(together[text, :length], alone[0], rtol=0, atol=0)


def test_only_tensors_that_require_a_gradient_get_one() -> None:
    layer, inputs, lengths = case([3, 5])
    frozen, _, _ = case([3, 5])
    frozen.requires_grad_(False)

    fast(layer, inputs.detach(), lengths).sum().backward()  # type: ignore[no-untyped-call]
    fast(frozen, inputs, lengths).sum().backward()  # type: ignore[no-untyped-call]

    wanted = torch.autograd.grad(
        plain_gru(layer, inputs, lengths).sum(), [inputs, *layer.parameters()]
    )
    torch.testing.assert_close(
        [inputs.grad, *(weight.grad for weight in layer.parameters())], list(wanted)
    )
    assert all(weight.grad is None for weight in frozen.parameters())


def test_inputs_and_gradients_need_not_be_contiguous() -> None:
    layer, inputs, lengths = case([6, 2, 4, 4])
    turned = inputs.detach().permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    other = turned.detach().clone(memory_format=torch.contiguous_format).requires_grad_()

    fast(layer, turned, lengths).transpose(1, 2).square().sum().backward()  # type: ignore[no-untyped-call]
    plain_gru(layer, other, lengths).transpose(1, 2).square().sum().backward()  # type: ignore[no-untyped-call]

    assert not turned.is_contiguous()
    torch.testing.assert_close(turned.grad, other.grad)


def test_backward_may_run_twice() -> None:
    layer, inputs, lengths = case([3, 5])
    total = fast(layer, inputs, lengths).sum()

    first = torch.autograd.grad(total, [inputs, *layer.parameters()], retain_graph=True)
    second = torch.autograd.grad(total, [inputs, *layer.parameters()])

    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_every_run_gives_the_same_bits_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer, inputs, lengths = case([*range(60, 1, -3)], 10, 20, torch.float32)

    runs = []
    for threads in (1, 2, 3, 2, 3):
        monkeypatch.setenv("LAMATEXT_THREADS", str(threads))
        runs.append(states_and_gradients(layer, inputs, fast(layer, inputs, lengths)))

    for run in runs:
        torch.testing.assert_close(run, runs[0], rtol=0, atol=0)


def test_several_threads_may_call_the_kernel_at_once() -> None:
    layer, inputs, lengths = case([*range(60, 1, -3)], 10, 20, torch.float32)
    alone = states_and_gradients(layer, inputs, fast(layer, inputs, lengths))

    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(lambda: states_and_gradients(layer, inputs, fast(layer, inputs, lengths)))
            for _ in range(16)
        ]

    for run in runs:
        torch.testing.assert_close(run.result(), alone, rtol=0, atol=0)


def _inputs_grad(layer: nn.GRU, inputs: Tensor, lengths: Tensor) -> list[float]:
    _, inputs_grad, *_ = states_and_gradients(layer, inputs, fast(layer, inputs, lengths))
    values: list[float] = inputs_grad.flatten().tolist()
    return values


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_compute_after_its_parent_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAMATEXT_THREADS", "2")
    example = case([8, 3, 5, 5, 2, 9])
    mine = _inputs_grad(*example)

    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = [pool.apply_async(_inputs_grad, example) for _ in range(4)]
        theirs = [result.get(timeout=60) for result in results]

    assert theirs == [mine] * 4


@pytest.mark.parametrize("lengths", [[0, 3], [4, 3], [3]], ids=str)
def test_lengths_out_of_range_are_an_error(lengths: list[int]) -> None:
    layer, inputs, _ = case([3, 3])

    for run in (fast, plain_gru):
        with pytest.raises(ValueError, match="2 numbers from 1 to 3, got "):
            run(layer, inputs, torch.tensor(lengths))


def test_the_kernel_is_used_only_where_it_is_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, inputs, lengths = case([3, 2])

    assert use_cpu_kernel(layer, inputs, lengths)
    assert not use_cpu_kernel(layer, inputs.to("meta"), lengths)
    assert not use_cpu_kernel(layer, inputs.float(), lengths)
    assert not use_cpu_kernel(layer.bfloat16(), inputs.bfloat16(), lengths)
    for options in ({"num_layers": 2}, {"bidirectional": False}, {"bias": False}):
        settings = {"batch_first": True, "bidirectional": True, "dtype": torch.float64} | options
        assert not use_cpu_kernel(nn.GRU(5, 3, **settings), inputs, lengths)
    monkeypatch.setenv("LAMATEXT_GRU", "plain")
    assert not use_cpu_kernel(*case([3, 2]))


@pytest.mark.parametrize(
    ("hidden", "lengths", "taken"),
    [
        (160, [4], True),
        (161, [4], False),  # too few words for the weights to be rearranged
        (161, [4, 3], True),  # torch would have to pack these
        (192, [3, 1], True),
        (193, [3, 1], False),
        (1, [3], True),
        (1, [2], False),
        (1, [2, 1], True),
        (1, [1, 1], False),
    ],
)
def test_very_short_texts_use_torchs_gru(hidden: int, lengths: list[int], taken: bool) -> None:
    assert use_cpu_kernel(*case(lengths, hidden=hidden)) is taken


def test_texts_of_one_length_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, inputs, lengths = case([3, 3, 3])
    packed = packed_gru(layer, inputs, lengths)
    monkeypatch.setattr("lamatext.kernels.gru_dispatch.packed_gru", None)

    torch.testing.assert_close(plain_gru(layer, inputs, lengths), packed)


def test_a_gru_without_batch_first_is_packed() -> None:
    layer, inputs, lengths = case([3, 3])
    expected = plain_gru(layer, inputs, lengths)
    layer.batch_first = False

    torch.testing.assert_close(run_gru(layer, inputs, lengths), expected)


@pytest.mark.parametrize("switch", ["plain", "auto"])
def test_kernel_and_torch_give_the_same_states(
    monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.setenv("LAMATEXT_GRU", switch)
    layer, inputs, lengths = case([3, 2, 5])

    torch.testing.assert_close(
        run_gru(layer, inputs, lengths), plain_gru(layer, inputs, lengths), rtol=1e-9, atol=1e-10
    )


def test_without_numba_torchs_gru_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    layer, inputs, lengths = case([3, 2])

    assert not use_cpu_kernel(layer, inputs, lengths)
    torch.testing.assert_close(
        run_gru(layer, inputs, lengths), plain_gru(layer, inputs, lengths), rtol=0, atol=0
    )


def test_compiling_ahead_compiles_all_kernels_and_draws_no_random_number() -> None:
    before = torch.get_rng_state()

    compile_cpu_kernels()

    assert cpu_kernels_are_compiled()
    assert all(getattr(kernel, "signatures", ()) for kernel in gru_cpu.KERNELS)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_cache_older_than_the_sources_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def double(x: int) -> int:
        return 2 * x

    source = tmp_path / "kernel.py"
    source.touch()
    index = tmp_path / "test_gru_cpu.double-1.nbi"
    monkeypatch.setattr(numba_compat, "SOURCES", (source,))
    monkeypatch.setattr(numba_compat, "_cache_files", lambda _function: [index])
    for age, stays in ((-10, False), (10, True)):
        index.touch()
        stamp = source.stat().st_mtime + age
        os.utime(index, (stamp, stamp))

        assert numba_compat.compiled(double)(4) == 8

        assert index.exists() == stays
