"""A saved network in ONNX Runtime: needs neither torch nor the package onnx."""

from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from lamatext.errors import ModelError
from lamatext.runtime.engine import Floats, Ids, Result

GRAPH_FILE = "model.onnx"


class OnnxEngine:
    """Runs a graph of ``lamatext.runtime.graph``; several threads may use one engine at once.

    Args:
        model: the graph's file, or the bytes of a graph that holds its own tensors.
        threads: that ONNX Runtime may use within one batch; one unless stated. More slow this
            recurrence down: run batches side by side instead (``lamatext.runtime.parallel``).
    """

    def __init__(self, model: Path | bytes, *, threads: int | None = None) -> None:
        self._model, self._threads = model, threads or 1
        self._opening = Lock()
        self._opened: Any = None  # onnxruntime.InferenceSession, which has no types

    @classmethod
    def load(cls, folder: str | Path, *, threads: int | None = None) -> "OnnxEngine":
        """The engine of a saved model; its graph is read when it is first used."""
        file = Path(folder) / GRAPH_FILE
        if not file.is_file():
            raise ModelError(
                f"{folder}: no {GRAPH_FILE}, which predicting without torch needs; te and bert "
                "have none. Use TextClassifier.load with torch installed."
            )
        return cls(file, threads=threads)

    def run(self, ids: Ids, lengths: Ids) -> Result:
        """All that the network says of ``ids`` (B, T) with ``lengths`` (B,)."""
        session = self._session()
        names = [output.name for output in session.get_outputs()]
        values = session.run(names, {"ids": ids, "lengths": lengths})
        return Result(**{"weights": None, **dict(zip(names, values, strict=True))})

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Only the logits (B, C)."""
        logits: Floats = self._session().run(["logits"], {"ids": ids, "lengths": lengths})[0]
        return logits

    def _session(self) -> Any:
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    self._opened = _open(self._model, self._threads)
        return self._opened


def _open(model: Path | bytes, threads: int) -> Any:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # would keep a plan for every shape of batch ever seen
    options.log_severity_level = 3  # errors only
    source = model if isinstance(model, bytes) else str(model)
    try:
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a dozen types without a common one
        where = GRAPH_FILE if isinstance(model, bytes) else model
        raise ModelError(
            f"{where}: ONNX Runtime cannot read it ({error}). Save or export the model again."
        ) from error
