"""Checkpoints: the state of a training run in one file, written atomically, without pickle."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from lamatext.atomic_write import replace_atomically
from lamatext.errors import ConfigError, ModelError

Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Loss, accuracy, learning rate and duration of one epoch, as stored in checkpoints."""

    epoch: int  # 1 is the first
    loss: float  # mean over the training texts
    accuracy: float  # on the validation set; mean average precision with several labels
    learning_rate: float | None  # at the end of the epoch; None if the file has no value
    seconds: float
    words: int | None  # training words read; None if the file has no value

    def as_dict(self) -> dict[str, Any]:
        """Return the epoch record as JSON data, for checkpoints and ``metrics.json``."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EpochRecord":
        """Restore an epoch's record from the JSON in a training checkpoint or ``metrics.json``.

        Models saved in format 1 recorded neither learning rate nor words.
        """
        return cls(
            epoch=values["epoch"],
            loss=values["loss"],
            accuracy=values["accuracy"],
            learning_rate=values.get("learning_rate"),
            seconds=values["seconds"],
            words=values.get("words"),
        )


@dataclass(slots=True)
class TrainingState:
    """Training state stored in a checkpoint: everything needed to resume a run."""

    run_id: str  # fingerprint of recipe and data: a run only resumes its own checkpoint
    epoch: int = 0  # completed epochs
    learning_rate: float = 0.0
    best_accuracy: float = -1.0
    best_epoch: int = 0
    history: list[EpochRecord] = field(default_factory=list)
    weights: Tensors = field(default_factory=dict)
    best_weights: Tensors = field(default_factory=dict)
    optimizer: Tensors = field(default_factory=dict)


_TENSOR_FIELDS = ("weights", "best_weights", "optimizer")
_SCALAR_FIELDS = ("run_id", "epoch", "learning_rate", "best_accuracy", "best_epoch")


def save_checkpoint(path: Path, state: TrainingState) -> None:
    """Write a checkpoint atomically, so that a crash leaves the old or the new file intact."""
    tensors = {
        f"{name}/{key}": tensor.detach().cpu().contiguous()
        for name in _TENSOR_FIELDS
        for key, tensor in getattr(state, name).items()
    }
    values = {name: getattr(state, name) for name in _SCALAR_FIELDS}
    values["history"] = [record.as_dict() for record in state.history]
    with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
        file.write(save(tensors, metadata={"run": json.dumps(values)}))
        file.flush()
        os.fsync(file.fileno())


def load_checkpoint(path: Path, run_id: str) -> TrainingState:
    """Read a checkpoint file; raise an error if it belongs to another training run."""
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads(file.metadata()["run"])
            values["history"] = [EpochRecord.from_dict(record) for record in values["history"]]
            state = TrainingState(**values)
            for name in file.keys():  # noqa: SIM118 - the file is no mapping
                part, _, key = name.partition("/")
                getattr(state, part)[key] = file.get_tensor(name)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{path}: damaged, or not a checkpoint of lamatext. Start again with --force "
            "instead of --resume."
        ) from error
    if state.run_id != run_id:
        raise ConfigError(
            f"{path}: the checkpoint belongs to a run with other data or settings. "
            "Resume with the same command, or train into another folder."
        )
    return state


def optimizer_tensors(optimizer: Optimizer) -> Tensors:
    """Return the optimizer state as named tensors for a checkpoint."""
    return {
        f"{number}.{name}": value
        for number, buffers in optimizer.state_dict()["state"].items()
        for name, value in buffers.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: Tensors) -> None:
    """Restore the optimizer state from the tensors in a checkpoint."""
    state: dict[int, Tensors] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
