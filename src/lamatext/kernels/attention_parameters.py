"""The parameters of the LAMA attention equation, as the attention kernels read them.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F


class AttentionParameters(NamedTuple):
    """Parameters and options of a ``LowRankAttention`` layer, passed to an attention kernel."""

    w: Tensor | None  # (D, D); None scores the states themselves
    b: Tensor | None  # (D,)
    p: Tensor  # (M*k, E)
    q: Tensor  # (M*k, D)
    context: Tensor  # (B, E), or (E,) if all texts share one context
    log_temperature: Tensor | None  # (M,)
    heads: int
    tanh: bool
    l2: bool

    @property
    def rank(self) -> int:
        """Rank k of the attention parameters, the number of vector pairs per head."""
        return self.p.shape[0] // self.heads


def head_vectors(parameters: AttentionParameters) -> Tensor:
    """Compute one scoring vector per head from the attention parameters.

    Head i scores word t by gᵢ·uₜ with gᵢ = Qᵢ Pᵢᵀ c. The shape is (B or 1, M, D).
    """
    query = F.linear(parameters.context, parameters.p)  # (B, M*k) or (M*k,)
    terms = query[..., None] * parameters.q
    return terms.view(-1, parameters.heads, parameters.rank, parameters.q.shape[1]).sum(2)
