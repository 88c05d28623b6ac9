"""Training on several processes: shares of a batch, the same losses, one decision, and failures."""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lamatext.data.token_ids import TokenIds
from lamatext.errors import ConfigError, MissingExtraError, ProcessError
from lamatext.nn.network import build_network
from lamatext.settings import ModelSettings, TrainingSettings
from lamatext.training import loop, process_group
from lamatext.training.batching import Batch, EncodedDataset
from lamatext.training.checkpoint import TrainingState
from lamatext.training.loop import LoopSettings, fit
from lamatext.training.process_group import (
    SHARED_BYTES,
    ProcessGroup,
    SharedMemory,
    current_processes,
    training_processes,
)

CPU = torch.device("cpu")
MODEL = ModelSettings(
    name="lama-encoder", heads=3, classifier_width=4, dropout=0, disagreement_weight=0.1
)
TEXTS = 97  # twelve batches of 8 and one of a single text: less than one text per process


def examples(count: int, *, seed: int) -> EncodedDataset:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    rows = [np.append(draw.integers(4, 40, draw.integers(1, 30)), 3 - y).tolist() for y in labels]
    return EncodedDataset(TokenIds.from_lists(rows), labels)


TRAIN, VALID = examples(TEXTS, seed=0), examples(31, seed=1)
WEIGHTS = np.random.default_rng(2).uniform(0, 3, TEXTS).astype(np.float32)


def network(model: ModelSettings = MODEL) -> nn.Module:
    torch.manual_seed(0)
    return build_network(model, vocabulary=40, width=5, classes=2)


def plan(model: ModelSettings = MODEL, **values: Any) -> LoopSettings:
    given = {
        "batch_size": 8, "epochs": 4, "optimizer": "adamw", "learning_rate": 0.01,
        "gradient_clip": 1.0, "patience": 9, **values,
    }  # fmt: skip
    return LoopSettings(model, TrainingSettings.model_validate(given), 7, CPU, run_id="me")


def several_labels(dataset: EncodedDataset) -> EncodedDataset:
    targets = np.stack([dataset.labels, dataset.token_ids.lengths % 2], axis=1)
    return EncodedDataset(dataset.token_ids, targets.astype(np.float32), dataset.sample_weight)


PROBABILITIES = np.random.default_rng(3).dirichlet((1, 1), TEXTS).astype(np.float32)
BY_CLASS = torch.tensor([0.2, 2.0])
CASES: dict[str, tuple[EncodedDataset, EncodedDataset, LoopSettings]] = {
    "one label": (TRAIN, VALID, plan()),
    "SGD": (TRAIN, VALID, plan(optimizer="sgd", schedule="plateau", learning_rate=0.1)),
    "Adam": (TRAIN, VALID, plan(optimizer="adam", schedule="constant")),
    "class weights": (TRAIN, VALID, plan()._replace(class_weights=BY_CLASS)),
    "sample weights": (EncodedDataset(TRAIN.token_ids, TRAIN.labels, WEIGHTS), VALID, plan()),
    "a teacher": (
        EncodedDataset(TRAIN.token_ids, PROBABILITIES, WEIGHTS),
        VALID,
        plan()._replace(class_weights=BY_CLASS + 1, temperature=2.0),
    ),
    "several labels": (
        several_labels(TRAIN),
        several_labels(VALID),
        plan()._replace(multi_label=True),
    ),
}


@pytest.fixture(scope="module")
def group(request: pytest.FixtureRequest) -> Iterator[ProcessGroup]:
    """A group of processes that all tests of a size share; this process is number 0."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "over gloo":  # as torchrun starts it
            patched.setattr(process_group, "_shared_files", lambda count: [[]] * count)
        size = 2 if request.param == "over gloo" else request.param
        with training_processes(size, CPU) as processes:
            assert isinstance(processes, ProcessGroup)
            yield processes


def alone(*job: Any) -> TrainingState:
    """Run a training loop outside the group."""
    return Context().run(fit, *job)


def losses(state: TrainingState) -> list[float]:
    return [record.loss for record in state.history]


needs_shared_memory = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="gloo sums on systems without memfd_create"
)
TWO = pytest.mark.parametrize("group", [2], indirect=True)


@pytest.mark.slow  # with two groups of processes to start
@pytest.mark.parametrize(
    ("group", "case"),
    [*((2, case) for case in CASES), (4, "one label"), ("over gloo", "one label")],
    indirect=["group"],
)
def test_the_losses_are_those_of_one_process(group: ProcessGroup, case: str) -> None:
    train, valid, settings = CASES[case]

    one = alone(network(), train, valid, settings)
    several = fit(network(), train, valid, settings)

    assert current_processes() is group
    assert losses(several) == pytest.approx(losses(one), abs=1e-4)
    assert [r.accuracy for r in several.history] == [r.accuracy for r in one.history]


@pytest.mark.slow
@pytest.mark.usefixtures("group")
@TWO
def test_all_processes_stop_at_the_same_epoch_and_take_the_next_job() -> None:
    settings = plan(epochs=50, patience=2, learning_rate=1e-9, schedule="constant")

    states = [fit(network(), TRAIN, VALID, settings) for _ in range(2)]

    assert [state.epoch for state in states] == [3, 3]


@pytest.mark.slow
@pytest.mark.usefixtures("group")
@TWO
def test_processes_draw_different_dropout_and_learn() -> None:
    model = MODEL.model_copy(update={"dropout": 0.3})
    settings = plan(model, epochs=30, patience=30, learning_rate=0.03)

    state = fit(network(model), TRAIN, VALID, settings)

    assert state.best_accuracy >= 0.9
    assert losses(state) != pytest.approx(
        losses(alone(network(model), TRAIN, VALID, settings)), abs=1e-4
    )


@pytest.mark.slow
@pytest.mark.usefixtures("group")
@TWO
def test_a_run_of_one_process_is_resumed_by_several(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    settings = plan(schedule="constant")._replace(checkpoint=path)
    shorter = settings._replace(training=settings.training.model_copy(update={"epochs": 2}))
    alone(network(), TRAIN, VALID, shorter)

    resumed = fit(network(), TRAIN, VALID, settings)

    whole = alone(network(), TRAIN, VALID, settings._replace(checkpoint=None))
    assert resumed.epoch == 4
    assert losses(resumed) == pytest.approx(losses(whole), abs=1e-4)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("texts", [1, 2, 7, 8])
def test_shares_cover_a_batch_without_overlap(size: int, texts: int) -> None:
    lengths = torch.arange(1, texts + 1)
    batch = Batch(torch.arange(texts)[:, None].expand(texts, 9), lengths, torch.arange(texts))

    shares = [member(rank, size).share(batch) for rank in range(size)]

    rows = [row for share in shares[:texts] for row in share.labels.tolist()]
    assert sorted(rows) == list(range(texts))
    for share in shares:
        assert share.ids.shape == (len(share.labels), share.lengths.max())


def test_the_fractions_of_all_shares_add_up_to_one() -> None:
    batch = Batch(torch.zeros(3, 2, dtype=torch.int64), torch.ones(3), torch.tensor([0, 1, 1]))
    settings = plan()._replace(class_weights=torch.tensor([0.5, 2.0]))

    fractions = [loop._share_of_batch(member(rank, 4), batch, settings)[1] for rank in range(4)]

    assert [float(f.loss) for f in fractions] == pytest.approx([0.5 / 4.5, 2 / 4.5, 2 / 4.5, 0])
    assert sum(float(f.disagreement) for f in fractions) == pytest.approx(1)


def member(rank: int, size: int) -> ProcessGroup:
    """A place in a group that is not connected."""
    group = ProcessGroup.__new__(ProcessGroup)
    group.rank, group.size = rank, size
    return group


def shared_members(count: int) -> Iterator[ProcessGroup]:
    """The members of a group on one machine, which share memory and nothing else."""
    for rank, files in enumerate(process_group._shared_files(count)):
        group = member(rank, count)
        group._shared = SharedMemory(rank, *files)
        yield group


@needs_shared_memory
@pytest.mark.parametrize("length", [1, SHARED_BYTES // 8, SHARED_BYTES // 8 + 1])
def test_shared_memory_sums_what_all_processes_have_several_times(length: int) -> None:
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(3, 4, length, dtype=torch.float64, generator=draw)

    def add_up(group: ProcessGroup) -> torch.Tensor:
        return torch.stack([group.sum(value.clone()) for value in values[group.rank]])

    with ThreadPoolExecutor(3) as threads:
        sums = list(threads.map(add_up, shared_members(3)))

    for one in sums:
        torch.testing.assert_close(one, values.sum(0))
        assert one.equal(sums[0])  # all processes take the same step


@needs_shared_memory
@pytest.mark.parametrize("first", [3, SHARED_BYTES // 4 - 1, SHARED_BYTES // 4])
def test_several_tensors_are_summed_in_one_exchange(first: int) -> None:
    sizes = [first, 0, 35, 1]

    def add_up(group: ProcessGroup) -> torch.Tensor:
        parts = [
            torch.full((size,), float(group.rank + number)) for number, size in enumerate(sizes)
        ]
        joined = torch.empty(sum(sizes))
        group.sum_joined(parts, joined)
        return joined

    with ThreadPoolExecutor(4) as threads:
        sums = list(threads.map(add_up, shared_members(4)))

    for joined in sums:
        for number, part in enumerate(torch.split(joined, sizes)):
            assert (part == 0 + 1 + 2 + 3 + 4 * number).all()


@needs_shared_memory
def test_a_process_sleeps_until_a_late_one_has_come() -> None:
    def add_up(group: ProcessGroup) -> tuple[float, float]:
        if group.rank == 1:
            time.sleep(0.3)
        started = time.thread_time()
        return float(group.sum(torch.ones(1))), time.thread_time() - started

    with ThreadPoolExecutor(2) as threads:
        (total, busy), _ = threads.map(add_up, shared_members(2))

    assert total == 2
    assert busy < 0.1  # it polls for a moment only


def test_many_processes_open_no_files_to_share_memory() -> None:
    assert process_group._shared_files(64) == [[]] * 64


@needs_shared_memory
def test_a_process_that_has_ended_is_an_error_instead_of_a_wait() -> None:
    one, ended = shared_members(2)
    assert ended._shared is not None
    os.close(ended._shared._others[0])

    with pytest.raises(ProcessError, match=r"process 0 of 2 lost the connection to another"):
        one.sum(torch.ones(3))


@pytest.fixture
def not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process outside the group that other tests of the module may share at the time."""
    for name in process_group.PLACE:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("not_launched")
def test_more_processes_than_gpus_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)

    with (
        pytest.raises(ConfigError, match=r"2 processes were asked for, but PyTorch finds 1 GPU on"),
        training_processes(2, torch.device("cuda")),
    ):
        pass


@pytest.mark.usefixtures("not_launched")
def test_many_more_processes_than_cores_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "usable_cores", lambda: 2)

    with (
        pytest.raises(ConfigError, match=r"--devices 9: at most 8 processes .* on 2 processor"),
        training_processes(9, CPU),
    ):
        pass


def test_another_number_than_the_launchers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")

    with (
        pytest.raises(ConfigError, match=r"--devices 2: the launcher has started 4 processes"),
        training_processes(2, CPU),
    ):
        pass


def test_a_gpu_by_number_is_an_error() -> None:
    with (
        pytest.raises(ConfigError, match=r"choose their GPU themselves; cuda:1 names one"),
        training_processes(2, torch.device("cuda:1")),
    ):
        pass


def test_without_accelerate_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)

    with (
        pytest.raises(MissingExtraError, match=r"pip install 'lamatext\[multi\]'"),
        training_processes(2, CPU),
    ):
        pass


@pytest.mark.usefixtures("not_launched")
def test_one_process_needs_no_group() -> None:
    with training_processes(None, CPU) as processes:
        assert processes is process_group.ONE_PROCESS
