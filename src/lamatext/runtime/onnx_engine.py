"""A saved network in ONNX Runtime: needs neither torch nor the package onnx."""

from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from lamatext.errors import ModelError
from lamatext.runtime.compiled_gru import CompiledGru, library
from lamatext.runtime.engine import GIVEN, Floats, Ids, Result
from lamatext.saved.format import GRAPH, WEIGHTS
from lamatext.saved.quantization import tensors_in


class OnnxEngine:
    """Runs a graph of ``lamatext.saved.onnx_graph``; several threads may use one engine at once.

    Args:
        model: the graph's file, or the bytes of a graph that holds its own tensors.
        threads: that ONNX Runtime may use within one batch; one unless stated. More slow this
            recurrence down: run batches side by side instead (``lamatext.runtime.parallel``).
        tensors: the safetensors file that the graph points into. It is read when the graph is: what
            becomes of it later does not matter. With it the GRU is walked by compiled code, where
            there is some, and the graph does the rest.
    """

    def __init__(
        self, model: Path | bytes, *, threads: int | None = None, tensors: Path | None = None
    ) -> None:
        self._model, self._threads, self._tensors = model, threads or 1, tensors
        self._opening = Lock()
        self._opened: Any = None  # onnxruntime.InferenceSession, which has no types
        self._gru: CompiledGru | None = None

    @classmethod
    def load(cls, folder: str | Path, *, threads: int | None = None) -> "OnnxEngine":
        """The engine of a saved model; its graph is read when it is first used."""
        file = Path(folder) / GRAPH
        if not file.is_file():
            raise ModelError(
                f"{folder}: no {GRAPH}, which predicting without torch needs; te and bert "
                "have none. Use TextClassifier.load with torch installed."
            )
        return cls(file, threads=threads, tensors=Path(folder) / WEIGHTS)

    def run(self, ids: Ids, lengths: Ids) -> Result:
        """All that the network says of ``ids`` (B, T) with ``lengths`` (B,)."""
        session = self._session()
        names = [output.name for output in session.get_outputs()]
        values = session.run(names, self._feeds(ids, lengths))
        return Result(**{"weights": None, **dict(zip(names, values, strict=True))})

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Only the logits (B, C)."""
        session = self._session()
        logits: Floats = session.run(["logits"], self._feeds(ids, lengths))[0]
        return logits

    def _feeds(self, ids: Ids, lengths: Ids) -> dict[str, Ids | Floats]:
        if self._gru is None:
            return {"ids": ids, "lengths": lengths}
        return {"ids": ids, "lengths": lengths, GIVEN: self._gru.states(ids, lengths)}

    def _session(self) -> Any:
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    data = self._data()
                    session = _open(self._model, self._threads, self._tensors, data)
                    self._gru = None if data is None else _compiled(session, data)
                    self._opened = session
        return self._opened

    def _data(self) -> bytes | None:
        """The bytes of the tensors; a file that is not there is for ONNX Runtime to miss."""
        if self._tensors is None or not self._tensors.is_file():
            return None
        return self._tensors.read_bytes()


def _compiled(session: Any, data: bytes) -> CompiledGru | None:
    code = library()
    may_be_given = [value.name for value in session.get_overridable_initializers()]
    if code is None or GIVEN not in may_be_given:
        return None
    return CompiledGru(code, tensors_in(data))


def _open(model: Path | bytes, threads: int, tensors: Path | None, data: bytes | None) -> Any:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # would keep a plan for every shape of batch ever seen
    options.log_severity_level = 3  # errors only
    read = getattr(options, "add_external_initializers_from_files_in_memory", None)
    if read is not None and tensors is not None and data is not None:
        read([tensors.name], [data], [len(data)])  # else it maps the file, and dies with it
    source = model if isinstance(model, bytes) else str(model)
    try:
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a dozen types without a common one
        where = GRAPH if isinstance(model, bytes) else model
        raise ModelError(
            f"{where}: ONNX Runtime cannot read it ({error}). Save or export the model again."
        ) from error
