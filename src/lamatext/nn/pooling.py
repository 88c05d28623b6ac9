"""Poolings without weights over the words: the maximum and the mean.

The contract of every pooling, those in ``attention`` included:

    pooling(states (B, T, D), mask (B, T), context (B, E)) → embedding (B, M, D), weights (B, M, T)

with None for the weights where a system has none. Shapes: B texts, T words, D state width, M rows.
"""

from torch import Tensor, nn


class MaxPooling(nn.Module):
    """The largest value of each dimension over the words: max over time."""

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - the contract of poolings
    ) -> tuple[Tensor, None]:
        """The embedding (B, 1, D), and no weights."""
        return masked_max(states, mask), None


class MeanPooling(nn.Module):
    """The mean over the words."""

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - the contract of poolings
    ) -> tuple[Tensor, None]:
        """The embedding (B, 1, D), and no weights."""
        return masked_mean(states, mask)[:, None, :], None


def masked_max(states: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the words (B, 1, D); padding never wins."""
    return states.masked_fill(~mask[:, :, None], float("-inf")).amax(dim=1, keepdim=True)


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean over the words (B, D); padding counts for nothing."""
    weights = mask.to(states.dtype)
    weights = weights / weights.sum(dim=1, keepdim=True)  # (B, T)
    return (weights[:, None, :] @ states)[:, 0, :]
