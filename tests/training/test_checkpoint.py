import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from lamatext.errors import ConfigError, DataError, ModelError
from lamatext.training.checkpoint import (
    EpochRecord,
    TrainingState,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)


def some_state() -> TrainingState:
    torch.manual_seed(0)
    return TrainingState(
        run_id="this run",
        epoch=3,
        learning_rate=0.1 / 3,
        best_accuracy=2 / 3,
        best_epoch=2,
        history=[EpochRecord(1, 0.1 + 0.2, 0.5, 1e-3, 0.7, 10)],
        weights={"a.weight": torch.randn(3, 2), "b": torch.zeros(())},
        best_weights={"a.weight": torch.randn(3, 2).t()},
        optimizer={"0.step": torch.tensor(5.0), "0.exp_avg": torch.randn(3, 2)},
    )


def test_a_checkpoint_restores_the_state_bit_for_bit(tmp_path: Path) -> None:
    state = some_state()

    save_checkpoint(tmp_path / "deep" / "run.safetensors", state)
    found = load_checkpoint(tmp_path / "deep" / "run.safetensors", "this run")

    for name in ("run_id", "epoch", "learning_rate", "best_accuracy", "best_epoch", "history"):
        assert getattr(found, name) == getattr(state, name)
    for part in ("weights", "best_weights", "optimizer"):
        before, after = getattr(state, part), getattr(found, part)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_only_the_new_checkpoint_file_remains(tmp_path: Path) -> None:
    for _ in range(2):
        save_checkpoint(tmp_path / "run.safetensors", some_state())

    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_crash_while_writing_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, some_state())

    def crash(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    later = some_state()
    later.epoch = 4
    with pytest.raises(DataError, match=r"run.safetensors: cannot be written: No space left"):
        save_checkpoint(path, later)

    assert load_checkpoint(path, "this run").epoch == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "run.safetensors", some_state())

    with pytest.raises(ConfigError, match="belongs to a run with other data or settings"):
        load_checkpoint(tmp_path / "run.safetensors", "another run")


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_damaged_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, some_state())
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(ModelError, match="damaged, or not a checkpoint"):
        load_checkpoint(path, "this run")


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_a_restored_optimizer_continues_like_an_uninterrupted_one(kind: type[Optimizer]) -> None:
    def made() -> tuple[nn.Module, Optimizer]:
        torch.manual_seed(0)
        network = nn.Linear(3, 2)
        more: dict[str, Any] = {"momentum": 0.9} if kind is SGD else {}
        made: Any = kind  # the base class takes other arguments
        return network, made(network.parameters(), lr=0.1, fused=True, **more)

    def steps(network: nn.Module, optimizer: Optimizer, count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            network(torch.ones(4, 3)).square().sum().backward()
            optimizer.step()

    whole, whole_optimizer = made()
    steps(whole, whole_optimizer, 7)
    first, first_optimizer = made()
    steps(first, first_optimizer, 3)
    second, second_optimizer = made()
    second.load_state_dict(first.state_dict())
    restore_optimizer(second_optimizer, optimizer_tensors(first_optimizer))
    steps(second, second_optimizer, 4)

    for one, other in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_an_epoch_record_survives_json() -> None:
    record = EpochRecord(2, 0.1 + 0.2, 2 / 3, 1e-3, 0.7, 10)

    assert EpochRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_an_epoch_record_of_format_1_has_no_invented_values() -> None:
    record = EpochRecord.from_dict({"epoch": 1, "loss": 0.5, "accuracy": 0.8, "seconds": 2.0})

    assert (record.epoch, record.loss, record.accuracy, record.seconds) == (1, 0.5, 0.8, 2.0)
    assert record.learning_rate is None
    assert record.words is None
