"""The state of a training run in one file, written atomically, without pickle."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from lamatext.atomic_write import replace_atomically
from lamatext.errors import ConfigError, ModelError

Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """What one epoch came to."""

    epoch: int
    loss: float
    accuracy: float  # on the validation texts
    rate: float
    seconds: float
    words: int


@dataclass(slots=True)
class RunState:
    """Everything that decides how a run goes on."""

    identity: str  # fingerprint of recipe and data: a run resumes only what is its own
    epoch: int = 0  # epochs done
    rate: float = 0.0
    best_accuracy: float = -1.0
    best_epoch: int = 0
    history: list[EpochRecord] = field(default_factory=list)
    weights: Tensors = field(default_factory=dict)
    best: Tensors = field(default_factory=dict)
    optimizer: Tensors = field(default_factory=dict)

    _PARTS = ("weights", "best", "optimizer")


def save_checkpoint(path: Path, state: RunState) -> None:
    """Write ``state``; a crash at any moment leaves the old file or the new one."""
    tensors = {
        f"{part}/{name}": tensor.detach().cpu().contiguous()
        for part in RunState._PARTS
        for name, tensor in getattr(state, part).items()
    }
    facts = {
        "identity": state.identity,
        "epoch": state.epoch,
        "rate": state.rate,
        "best_accuracy": state.best_accuracy,
        "best_epoch": state.best_epoch,
        "history": [asdict(record) for record in state.history],
    }
    with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
        file.write(save(tensors, metadata={"run": json.dumps(facts)}))
        file.flush()
        os.fsync(file.fileno())


def load_checkpoint(path: Path, identity: str) -> RunState:
    """What ``save_checkpoint`` wrote, if it is of this very run."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["run"])
            history = [EpochRecord(**record) for record in facts.pop("history")]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ModelError(
            f"{path}: damaged, or not a checkpoint of lamatext. Train without --resume."
        ) from error
    if facts["identity"] != identity:
        raise ConfigError(
            f"{path}: the checkpoint is of a run with other data or settings. "
            "Resume with the same command, or train into another folder."
        )
    parts: dict[str, Tensors] = {part: {} for part in RunState._PARTS}
    for name, tensor in tensors.items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor
    state = RunState(**facts, history=history)
    for name, values in parts.items():
        setattr(state, name, values)
    return state


def optimizer_tensors(optimizer: Optimizer) -> Tensors:
    """An optimiser's buffers by parameter number and name."""
    return {
        f"{number}.{name}": value
        for number, buffers in optimizer.state_dict()["state"].items()
        for name, value in buffers.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: Tensors) -> None:
    """Put the buffers of ``optimizer_tensors`` back."""
    state: dict[int, Tensors] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
