"""The engine that runs a network in PyTorch."""

import numpy as np
import pytest
import torch

from lamatext.errors import ModelError
from lamatext.runtime.torch_engine import TorchEngine


class Damaged(torch.nn.Module):
    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return ids.view(len(lengths), 0, -1)


def test_a_network_that_cannot_run_is_a_named_error() -> None:
    with pytest.raises(ModelError, match=r"PyTorch cannot run the saved network: .*copy it again"):
        TorchEngine(Damaged()).logits(np.ones((1, 3), np.int64), np.array([3]))
