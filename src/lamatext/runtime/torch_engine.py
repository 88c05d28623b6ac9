"""PyTorch engine: runs a torch network, with NumPy arrays as its inputs and outputs."""

import torch
from torch import nn

from lamatext.data.token_ids import TokenIds
from lamatext.errors import ModelError
from lamatext.nn.network import Output
from lamatext.runtime.engine import EngineOutput, Floats, Ids, batched_logits


class TorchEngine:
    """Inference engine that runs a PyTorch network in evaluation mode."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval()

    def run(self, ids: Ids, lengths: Ids) -> EngineOutput:
        """Run a batch in PyTorch and return all outputs of the network as NumPy arrays."""
        output = self._forward(ids, lengths)
        return EngineOutput(
            output.logits.numpy(),
            output.embedding.numpy(),
            None if output.weights is None else output.weights.numpy(),
            output.states.numpy(),
        )

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Run a batch in PyTorch and return only the logits, as a NumPy array."""
        logits: Floats = self._forward(ids, lengths).logits.numpy()
        return logits

    def text_logits(self, rows: TokenIds) -> Floats:
        """Run the PyTorch network on padded batches of texts and return the logits."""
        return batched_logits(self, rows)

    def _forward(self, ids: Ids, lengths: Ids) -> Output:
        try:
            with torch.inference_mode():
                output: Output = self.network(torch.from_numpy(ids), torch.from_numpy(lengths))
        except Exception as error:  # the library transformers can raise anything
            raise ModelError(
                f"PyTorch cannot run the saved network: {str(error)[:200]}. If there is enough "
                "memory, the folder is damaged: copy it again."
            ) from error
        return output
