"""ONNX Runtime engine: runs a saved network without the packages torch and onnx.

ONNX Runtime is not even imported for a network that runs entirely in compiled C code.
"""

from collections.abc import Mapping
from functools import cached_property, partial
from importlib import import_module
from typing import Any

from lamatext.data.token_ids import TokenIds
from lamatext.errors import ModelError
from lamatext.runtime.compiled_network import CompiledNetwork, compiled_library
from lamatext.runtime.engine import EngineOutput, Floats, Ids, batched_logits
from lamatext.saved.format import STATES_INPUT
from lamatext.saved.onnx_export import build_onnx_graph
from lamatext.saved.quantization import Array
from lamatext.settings import RECURRENT, ModelSettings


class OnnxEngine:
    """Thread-safe inference engine that runs a network in ONNX Runtime.

    The graph is built from the settings and tensors. The ``model.onnx`` of a saved model is meant
    for other programs and is never loaded: an untrusted graph could contain any operator.

    Args:
        model: settings of the network.
        tensors: tensors of the network, quantized or not, validated by ``saved.network_tensors``.
        compiled: whether to use compiled C code if it is available: for the whole network of most
            LAMA models, and for the GRU of other models. ONNX Runtime runs the rest.
    """

    def __init__(
        self,
        model: ModelSettings,
        tensors: Mapping[str, Array],
        *,
        compiled: bool = True,
    ) -> None:
        code = compiled_library() if compiled and model.name in RECURRENT else None
        self._compiled = None if code is None else CompiledNetwork(code, model, tensors)
        self._build_graph = partial(build_onnx_graph, model, tensors)
        if self._compiled is None or not self._compiled.pools:
            self._outputs = [output.name for output in self.session.get_outputs()]

    @cached_property
    def session(self) -> Any:
        """ONNX Runtime session, opened on first use."""
        return open_session(self._build_graph())

    def run(self, ids: Ids, lengths: Ids) -> EngineOutput:
        """Run a batch in compiled code if possible, else in ONNX Runtime; return all outputs."""
        if self._compiled is not None and self._compiled.pools:
            return self._compiled.outputs(ids, lengths)
        values = self.session.run(self._outputs, self._inputs(ids, lengths))
        return EngineOutput(**{"weights": None, **dict(zip(self._outputs, values, strict=True))})

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Return the logits of a batch, from ONNX Runtime unless compiled code is available."""
        if self._compiled is not None and self._compiled.pools:
            return self._compiled.logits(ids, lengths)
        logits: Floats = self.session.run(["logits"], self._inputs(ids, lengths))[0]
        return logits

    def text_logits(self, rows: TokenIds) -> Floats:
        """Return the logits of texts, from ONNX Runtime unless compiled code is available."""
        if self._compiled is not None and self._compiled.pools:
            return self._compiled.text_logits(rows)
        return batched_logits(self, rows)

    def _inputs(self, ids: Ids, lengths: Ids) -> dict[str, Ids | Floats]:
        if self._compiled is None:
            return {"ids": ids, "lengths": lengths}
        return {"ids": ids, "lengths": lengths, STATES_INPUT: self._compiled.states(ids, lengths)}


def open_session(graph: bytes) -> Any:
    """Open an ONNX Runtime session for a graph, with telemetry disabled."""
    runtime = import_module("onnxruntime")
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # more would slow down the GRU; ``parallel_map`` runs batches
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # would cache a memory plan for every batch shape ever seen
    options.log_severity_level = 3  # errors only
    try:
        return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a dozen types without a common base
        raise ModelError(
            f"ONNX Runtime cannot run the network ({error}). Save or copy the model again."
        ) from error
