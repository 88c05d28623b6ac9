"""The CUDA kernel of the GRU: its very source run by threads of the CPU, and the real thing."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lamatext.kernels import gru_cuda
from lamatext.kernels.gru_dispatch import plain_gru

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
    """A launch of the kernel of that name, one thread of the CPU for each of the GPU's."""

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
def test_the_kernels_source_gives_the_states_and_gradients_of_torch(
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
def test_the_compiled_kernel_gives_the_states_and_gradients_of_torch() -> None:
    torch.backends.cudnn.allow_tf32 = False

    compare("cuda", 50, 40)


def test_the_kernel_is_for_nvidia_gpus_alone() -> None:
    assert not gru_cuda.can_run(torch.zeros(1, 1, 1), 50)
