"""A torch network behind the engine's contract: numpy in, numpy out."""

import torch
from torch import nn

from lamatext.nn.network import Output
from lamatext.runtime.engine import Floats, Ids, Result


class TorchEngine:
    """Runs a network in evaluation mode."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval()

    def run(self, ids: Ids, lengths: Ids) -> Result:
        """All that the network says of these texts."""
        output = self._forward(ids, lengths)
        return Result(
            output.logits.numpy(),
            output.embedding.numpy(),
            None if output.weights is None else output.weights.numpy(),
            output.states.numpy(),
        )

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Only the logits (B, C)."""
        logits: Floats = self._forward(ids, lengths).logits.numpy()
        return logits

    def _forward(self, ids: Ids, lengths: Ids) -> Output:
        with torch.inference_mode():
            output: Output = self.network(torch.from_numpy(ids), torch.from_numpy(lengths))
            return output
