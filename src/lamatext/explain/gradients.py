"""Integrated gradients of a torch network's words, by captum: a second opinion on contributions.

Shapes: B texts, T words, E embedding width.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lamatext.data.ragged import PAD, Ids, Ragged
from lamatext.errors import require
from lamatext.explain.head import Floats
from lamatext.explain.occlusion import BATCH_WORDS

if TYPE_CHECKING:
    from lamatext.nn.network import Network


def integrated_gradients(
    network: "Network", texts: Sequence[Ids], *, steps: int = 32, batch: int = 16
) -> list[Floats]:
    """Each word's integrated gradient of the predicted class's logit, along from zero vectors."""
    captum = require("captum.attr", extra="explain", purpose="integrated gradients")
    torch = require("torch", extra="train", purpose="integrated gradients")
    attribute = captum.LayerIntegratedGradients(
        lambda ids, lengths: network(ids, lengths).logits, network.embedding
    ).attribute
    network.eval()
    ragged, found = Ragged.from_lists(texts), []
    for start in range(0, len(texts), batch):
        padded, lengths = ragged.pad(np.arange(start, min(start + batch, len(texts))))
        ids, sizes = torch.from_numpy(padded).long(), torch.from_numpy(lengths).long()
        with torch.no_grad():
            predicted = network(ids, sizes).logits.argmax(dim=1)
        gradients = attribute(
            ids,
            baselines=torch.full_like(ids, PAD),
            additional_forward_args=(sizes,),
            target=predicted,
            n_steps=steps,
            internal_batch_size=max(BATCH_WORDS // ids.shape[1], batch),
        )  # (B, T, E)
        scores = gradients.sum(dim=-1).detach().numpy().astype(np.float32)  # (B, T)
        found += [row[:length] for row, length in zip(scores, lengths, strict=True)]
    return found
