"""The CUDA GRU kernel: its source compiled for CPU threads, and on a real GPU."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from lamatext.kernels import gru_cuda
from lamatext.kernels.gru_dispatch import has_cuda_kernel, plain_gru

HIDDEN = 5
HARNESS = """
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>
#define __global__
#define __shared__ static
struct Place { int x, y, z; };
thread_local Place blockIdx, threadIdx;
static std::barrier<>* everyone;
static void __syncthreads() { everyone->arrive_and_wait(); }
#define H %d
%s
template <class Work> void launch(int texts, int block, Work work) {
  std::barrier<> barrier(block);
  everyone = &barrier;
  for (int text = 0; text < texts; ++text)
    for (int way = 0; way < 2; ++way) {
      std::vector<std::thread> threads;
      for (int j = 0; j < block; ++j)
        threads.emplace_back([=] { blockIdx = {text, way, 0}; threadIdx = {j, 0, 0}; work(); });
      for (auto& thread : threads) thread.join();
    }
}
extern "C" void forward(int texts, int block, const float* a, const float* b, const float* c,
                        const int* d, float* e, float* f, int words) {
  launch(texts, block, [=] { gru_forward(a, b, c, d, e, f, words); });
}
extern "C" void backward(int texts, int block, const float* a, const float* b, const int* c,
                         const float* d, const float* e, float* f, int words) {
  launch(texts, block, [=] { gru_backward(a, b, c, d, e, f, words); });
}
"""


def by_threads(library: ctypes.CDLL, name: str) -> Callable[..., None]:
    """Return a launch of the kernel with one CPU thread per GPU thread."""

    def launch(*, grid: tuple[int, ...], block: tuple[int, ...], args: list[Tensor | int]) -> None:
        values = [
            ctypes.c_void_p(arg.data_ptr()) if isinstance(arg, Tensor) else ctypes.c_int(arg)
            for arg in args
        ]
        assert all(arg.is_contiguous() for arg in args if isinstance(arg, Tensor))
        library[name](grid[0], block[0], *values)

    return launch


def states_and_gradients(gru: nn.GRU, inputs: Tensor, run: Callable[[], Tensor]) -> list[Tensor]:
    gru.zero_grad()
    inputs.grad = None
    states = run()
    weight = torch.linspace(-1, 1, states.numel(), device=states.device).view_as(states)
    (states * weight).sum().backward()  # type: ignore[no-untyped-call]
    found = [states.detach(), inputs.grad, *(parameter.grad for parameter in gru.parameters())]
    return [tensor.clone() for tensor in found if tensor is not None]


def compare(device: str, hidden: int, words: int) -> None:
    torch.manual_seed(0)
    gru = nn.GRU(7, hidden, batch_first=True, bidirectional=True).to(device)
    inputs = torch.randn(4, words, 7, device=device, requires_grad=True)
    lengths = torch.tensor([words, 1, 4, 6])
    parameters = [weight for way in gru.all_weights for weight in way]

    plain = states_and_gradients(gru, inputs, lambda: plain_gru(gru, inputs, lengths))
    ours = states_and_gradients(gru, inputs, lambda: gru_cuda.cuda_gru(inputs, lengths, parameters))

    assert len(plain) == len(ours) == 10
    for expected, got in zip(plain, ours, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_the_kernel_source_on_cpu_threads_matches_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = files("lamatext.kernels").joinpath("gru_cuda.cu").read_text(encoding="utf-8")
    (tmp_path / "gru.cpp").write_text(HARNESS % (HIDDEN, source))
    subprocess.run(
        ["g++", "-std=c++20", "-shared", "-fPIC", "-pthread", "-o", "gru.so", "gru.cpp"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    library = ctypes.CDLL(str(tmp_path / "gru.so"))
    launches = by_threads(library, "forward"), by_threads(library, "backward")
    monkeypatch.setattr(gru_cuda, "compiled_kernels", lambda hidden: launches)  # noqa: ARG005

    compare("cpu", HIDDEN, 9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_kernel_on_a_gpu_matches_torch() -> None:
    torch.backends.cudnn.allow_tf32 = False

    compare("cuda", 50, 40)


def test_the_kernel_does_not_run_on_a_cpu() -> None:
    assert not gru_cuda.can_run(torch.zeros(1, 1, 1), 50)


def cannot_compile(*_: object) -> None:
    raise TypeError("the private interface of torch has changed")


@pytest.mark.parametrize(
    ("version", "compile_kernel"), [("2.7.1", Mock()), ("2.13.0", cannot_compile), ("2.13.0", None)]
)
def test_a_torch_that_cannot_compile_the_kernel_uses_its_own_gru(
    monkeypatch: pytest.MonkeyPatch, version: str, compile_kernel: Callable[..., None] | None
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch.cuda, "_compile_kernel", compile_kernel, raising=False)
    if compile_kernel is None:
        monkeypatch.delattr(torch.cuda, "_compile_kernel")

    assert gru_cuda.compiled_kernels.__wrapped__(HIDDEN) is None


def test_a_torch_that_can_compile_the_kernel_compiles_both_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compile_kernel = Mock(side_effect=lambda source, name: name)  # noqa: ARG005
    monkeypatch.setattr(torch, "__version__", "2.8.0")
    monkeypatch.setattr(torch.cuda, "_compile_kernel", compile_kernel, raising=False)

    kernels: Any = gru_cuda.compiled_kernels.__wrapped__(HIDDEN)

    assert kernels == ("gru_forward", "gru_backward")
    assert compile_kernel.call_args.args[0].startswith(f"#define H {HIDDEN}\n")


def test_without_a_compiled_kernel_a_gru_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    gru = nn.GRU(7, HIDDEN, batch_first=True, bidirectional=True)
    for kernels, expected in ((None, False), ((Mock(), Mock()), True)):
        monkeypatch.setattr(gru_cuda, "compiled_kernels", lambda _, found=kernels: found)
        assert has_cuda_kernel(gru) is expected
