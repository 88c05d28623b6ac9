"""Dropout with cheap random numbers on the CPU, where torch's own draws cost as much as a GRU."""

import torch
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """Dropout layer that is faster than torch's on the CPU, with 16 random bits per element.

    The dropout probability is rounded to a multiple of 2⁻¹⁶; the mean of the output stays exact.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout in training mode, zeroing each element with probability p."""
        if not self.training or not self.p or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * 2**16)  # of 2¹⁶ equally likely values
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = words.view(torch.int16)[: x.numel()].view_as(x) >= dropped - 2**15
        return x * (keep * (2**16 / (2**16 - dropped))).to(x.dtype)
