"""Disagreement terms of the loss J = L − λ D, which reward attention heads for differing.

``lamatext.training`` adds them to the cross-entropy L. Shapes: B texts, T words, D state width,
M heads.
"""

import torch
from torch import Tensor

from lamatext.nn.attention import l2_normalized
from lamatext.nn.network import Output
from lamatext.settings import ModelSettings

DISAGREEMENT = {"lama-ctx-dp": "positions", "lama-ctx-de": "embeddings", "san": "positions"}


def disagreement(model: ModelSettings, output: Output) -> Tensor | None:
    """Compute the head-disagreement loss term of each text; return None if the model has none."""
    match DISAGREEMENT.get(model.name):
        case "positions" if output.weights is not None:
            return disagreement_over_positions(output.weights)
        case "embeddings":
            return disagreement_over_embeddings(output.embedding)
        case _:
            return None


def disagreement_over_positions(weights: Tensor) -> Tensor:
    """Compute the disagreement loss term from the overlap of the heads' attention weights.

    For the weights (B, M, T), return D_penal = −‖A Aᵀ − I‖²_F of each text (B,). [paper, eq.
    "dpenal"]
    """
    overlap = weights @ weights.transpose(1, 2)  # (B, M, M)
    identity = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
    return -(overlap - identity).square().sum(dim=(1, 2))


def disagreement_over_embeddings(embedding: Tensor) -> Tensor:
    """Compute the disagreement loss term from the cosine similarity of the heads' embeddings.

    For the embeddings (B, M, D), return D_emb = −(1/M²) Σᵢ Σⱼ cos(sᵢ, sⱼ) of each text (B,).
    [paper, eq. "demb"]
    """
    directions = l2_normalized(embedding)  # (B, M, D)
    cosines = directions @ directions.transpose(1, 2)  # (B, M, M)
    return -cosines.mean(dim=(1, 2))
