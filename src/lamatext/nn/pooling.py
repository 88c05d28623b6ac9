"""Pooling without attention weights: the maximum and the mean over the words.

Every pooling layer, those in ``attention.py`` included, has this signature:

    pooling(states (B, T, D), mask (B, T), context (B, E)) → embedding (B, M, D), weights (B, M, T)

The weights are None if the pooling has none. Shapes: B texts, T words, D state width, M rows.
"""

from torch import Tensor, nn


class MaxPooling(nn.Module):
    """Max pooling layer, which takes the maximum of each state dimension over the words."""

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - same signature as every pooling
    ) -> tuple[Tensor, None]:
        """Max-pool the states into an embedding (B, 1, D), without attention weights."""
        return masked_max(states, mask), None


class MeanPooling(nn.Module):
    """Mean pooling layer, which averages the states over the words."""

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - same signature as every pooling
    ) -> tuple[Tensor, None]:
        """Mean-pool the states into an embedding (B, 1, D), without attention weights."""
        return masked_mean(states, mask)[:, None, :], None


def masked_max(states: Tensor, mask: Tensor) -> Tensor:
    """Pool states to (B, 1, D) by their maximum over the words, ignoring padding."""
    return states.masked_fill(~mask[:, :, None], float("-inf")).amax(dim=1, keepdim=True)


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Pool states to (B, D) by their mean over the words, ignoring padding."""
    weights = mask.to(states.dtype)
    weights = weights / weights.sum(dim=1, keepdim=True)  # (B, T)
    return (weights[:, None, :] @ states)[:, 0, :]
