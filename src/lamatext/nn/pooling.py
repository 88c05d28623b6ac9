"""Pooling without attention weights: the maximum and the mean over the words.

Every pooling layer, those in ``attention.py`` included, has this signature:

    pooling(states (B, T, D), mask (B, T), context (B, E)) → embedding (B, M, D), weights (B, M, T)

The weights are None if the pooling has none. Shapes: B texts, T words, D state width, M rows.
"""

from torch import Tensor, nn


class MaxPooling(nn.Module):
    """Max pooling: the largest value of each dimension over the words (max over time)."""

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - same signature as every pooling
    ) -> tuple[Tensor, None]:
        """Return the max-pooled embedding (B, 1, D) and no weights."""
        return masked_max(states, mask), None


class MeanPooling(nn.Module):
    """Mean pooling: the average of the states over the words."""

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - same signature as every pooling
    ) -> tuple[Tensor, None]:
        """Return the mean-pooled embedding (B, 1, D) and no weights."""
        return masked_mean(states, mask)[:, None, :], None


def masked_max(states: Tensor, mask: Tensor) -> Tensor:
    """Return the max pooling over the words (B, 1, D), ignoring padding."""
    return states.masked_fill(~mask[:, :, None], float("-inf")).amax(dim=1, keepdim=True)


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean pooling over the words (B, D), ignoring padding."""
    weights = mask.to(states.dtype)
    weights = weights / weights.sum(dim=1, keepdim=True)  # (B, T)
    return (weights[:, None, :] @ states)[:, 0, :]
