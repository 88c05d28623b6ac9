"""What is minimised: cross entropy less λ times the disagreement of the heads.

Shapes: B texts, T words, D state width, M heads, C classes.
"""

import torch
from torch import Tensor

from lamatext.nn.attention import l2_normalised


def disagreement_over_positions(weights: Tensor) -> Tensor:
    """D_penal = −‖A Aᵀ − I‖²_F of each text: (B, M, T) → (B,) [paper, eq. "dpenal"]."""
    overlap = weights @ weights.transpose(1, 2)  # (B, M, M)
    identity = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
    return -(overlap - identity).square().sum(dim=(1, 2))


def disagreement_over_embeddings(embedding: Tensor) -> Tensor:
    """D_emb = −(1/m²) Σᵢ Σⱼ cos(sᵢ, sⱼ) of each text: (B, M, D) → (B,) [paper, eq. "demb"]."""
    directions = l2_normalised(embedding)  # (B, M, D)
    cosines = directions @ directions.transpose(1, 2)  # (B, M, M)
    return -cosines.mean(dim=(1, 2))
