"""The ONNX Runtime engine: runs a saved network without torch and without the package onnx."""

from importlib import import_module
from pathlib import Path
from typing import Any

from lamatext.errors import ModelError
from lamatext.runtime.compiled_gru import CompiledGru, compiled_library
from lamatext.runtime.engine import EngineOutput, Floats, Ids
from lamatext.saved.format import GRAPH, STATES_INPUT, WEIGHTS
from lamatext.saved.safetensors_layout import tensor_views


class OnnxEngine:
    """Inference engine that runs ``model.onnx`` in ONNX Runtime; safe to use from several threads.

    Args:
        model: path of the graph, or the bytes of a graph that contains its tensors.
        threads: threads that ONNX Runtime may use within one batch, 1 by default. More slow the GRU
            down: run several batches in parallel instead (``lamatext.runtime.parallel``).
        tensors: the safetensors file that the graph points into. It is read into memory, so later
            changes to the file have no effect. With it, compiled C code runs the GRU where
            available, and ONNX Runtime runs the rest.
    """

    def __init__(
        self, model: Path | bytes, *, threads: int | None = None, tensors: Path | None = None
    ) -> None:
        # If the file is missing, ONNX Runtime reports it.
        data = tensors.read_bytes() if tensors is not None and tensors.is_file() else None
        self.session = _open_session(model, threads or 1, tensors, data)
        self._outputs = [output.name for output in self.session.get_outputs()]
        self._gru = None if data is None else _compiled_gru(self.session, data)

    @classmethod
    def load(cls, folder: str | Path, *, threads: int | None = None) -> "OnnxEngine":
        """Create an ONNX Runtime engine from the folder of a saved model."""
        file = Path(folder) / GRAPH
        if not file.is_file():
            raise ModelError(
                f"{folder}: no {GRAPH}, which prediction without torch needs; te and bert "
                "have none. Use TextClassifier.load with torch installed."
            )
        return cls(file, threads=threads, tensors=Path(folder) / WEIGHTS)

    def run(self, ids: Ids, lengths: Ids) -> EngineOutput:
        """Run a batch in ONNX Runtime and return all outputs of the network."""
        values = self.session.run(self._outputs, self._inputs(ids, lengths))
        return EngineOutput(**{"weights": None, **dict(zip(self._outputs, values, strict=True))})

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Run a batch in ONNX Runtime and return only the logits."""
        logits: Floats = self.session.run(["logits"], self._inputs(ids, lengths))[0]
        return logits

    def _inputs(self, ids: Ids, lengths: Ids) -> dict[str, Ids | Floats]:
        if self._gru is None:
            return {"ids": ids, "lengths": lengths}
        return {"ids": ids, "lengths": lengths, STATES_INPUT: self._gru.states(ids, lengths)}


def _compiled_gru(session: Any, data: bytes) -> CompiledGru | None:
    code = compiled_library()
    optional_inputs = [value.name for value in session.get_overridable_initializers()]
    if code is None or STATES_INPUT not in optional_inputs:
        return None
    return CompiledGru(code, tensor_views(data))


def _open_session(
    model: Path | bytes, threads: int, tensors: Path | None, data: bytes | None
) -> Any:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # would cache a memory plan for every batch shape ever seen
    options.log_severity_level = 3  # errors only
    add_tensors = getattr(options, "add_external_initializers_from_files_in_memory", None)
    if add_tensors is not None and tensors is not None and data is not None:
        # Without this, ONNX Runtime maps the file, and crashes if the file is truncated later.
        add_tensors([tensors.name], [data], [len(data)])
    source = model if isinstance(model, bytes) else str(model)
    try:
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a dozen types without a common base
        where = GRAPH if isinstance(model, bytes) else model
        raise ModelError(
            f"{where}: ONNX Runtime cannot read it ({error}). Save or export the model again."
        ) from error
