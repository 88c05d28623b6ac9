"""Integrated gradients of a torch network, computed with captum, to compare with contributions.

Shapes: B texts, T words, E embedding width.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lamatext.data.token_ids import PAD, Ids, TokenIds
from lamatext.errors import require
from lamatext.explain.contributions import BATCH_WORDS, Floats

if TYPE_CHECKING:
    from torch import nn


def integrated_gradients(
    network: "nn.Module",
    texts: Sequence[Ids],
    *,
    targets: Sequence[int] | None = None,
    steps: int = 32,
    batch_size: int = 16,
) -> list[Floats]:
    """Compute the integrated gradients of a class logit for every word of each text.

    Args:
        network: a network that takes padded ids and lengths.
        texts: the token ids of each text.
        targets: the class of each text; None selects the predicted class.
        steps: integration steps from the baseline (padding vectors) to the text.
        batch_size: texts per call of captum.
    """
    captum = require("captum.attr", extra="explain", purpose="integrated gradients")
    torch = require("torch", extra="train", purpose="integrated gradients")
    attribute = captum.LayerIntegratedGradients(
        lambda ids, lengths: network(ids, lengths).logits, network.embedding
    ).attribute
    network.eval()
    token_ids, scores = TokenIds.from_lists(texts), []
    for start in range(0, len(texts), batch_size):
        padded, lengths = token_ids.pad(np.arange(start, min(start + batch_size, len(texts))))
        ids, sizes = torch.from_numpy(padded).long(), torch.from_numpy(lengths).long()
        if targets is None:
            with torch.no_grad():
                classes = network(ids, sizes).logits.argmax(dim=1)
        else:
            classes = torch.tensor(list(targets[start : start + batch_size]))
        gradients = attribute(
            ids,
            baselines=torch.full_like(ids, PAD),
            additional_forward_args=(sizes,),
            target=classes,
            n_steps=steps,
            internal_batch_size=max(BATCH_WORDS // ids.shape[1], batch_size),
        )  # (B, T, E)
        sums = gradients.sum(dim=-1).detach().numpy().astype(np.float32)  # (B, T)
        scores += [row[:length] for row, length in zip(sums, lengths, strict=True)]
    return scores
