"""Integrated gradients of a torch network's words, by captum: a second opinion on contributions.

Shapes: B texts, T words, E embedding width.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lamatext.data.token_ids import PAD, Ids, TokenIds
from lamatext.errors import require
from lamatext.explain.classifier_head import Floats
from lamatext.explain.occlusion import BATCH_WORDS

if TYPE_CHECKING:
    from torch import nn


def integrated_gradients(
    network: "nn.Module",
    texts: Sequence[Ids],
    *,
    targets: Sequence[int] | None = None,
    steps: int = 32,
    batch: int = 16,
) -> list[Floats]:
    """Each word's integrated gradient of a class's logit, along from zero vectors.

    Args:
        network: what is asked.
        texts: the ids of each text.
        targets: the class of each text; None is the one that the network predicts.
        steps: places on the way where the gradient is taken.
        batch: texts that are read together.
    """
    captum = require("captum.attr", extra="explain", purpose="integrated gradients")
    torch = require("torch", extra="train", purpose="integrated gradients")
    attribute = captum.LayerIntegratedGradients(
        lambda ids, lengths: network(ids, lengths).logits, network.embedding
    ).attribute
    network.eval()
    ragged, found = TokenIds.from_lists(texts), []
    for start in range(0, len(texts), batch):
        padded, lengths = ragged.pad(np.arange(start, min(start + batch, len(texts))))
        ids, sizes = torch.from_numpy(padded).long(), torch.from_numpy(lengths).long()
        if targets is None:
            with torch.no_grad():
                wanted = network(ids, sizes).logits.argmax(dim=1)
        else:
            wanted = torch.tensor(list(targets[start : start + batch]))
        gradients = attribute(
            ids,
            baselines=torch.full_like(ids, PAD),
            additional_forward_args=(sizes,),
            target=wanted,
            n_steps=steps,
            internal_batch_size=max(BATCH_WORDS // ids.shape[1], batch),
        )  # (B, T, E)
        scores = gradients.sum(dim=-1).detach().numpy().astype(np.float32)  # (B, T)
        found += [row[:length] for row, length in zip(scores, lengths, strict=True)]
    return found
