"""The training loop, on a network small enough to run it many times."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lamatext.data.token_ids import TokenIds
from lamatext.errors import ModelError
from lamatext.nn.network import build_network
from lamatext.progress import Progress
from lamatext.settings import ModelSettings, TrainingSettings
from lamatext.training import loop
from lamatext.training.batching import EncodedDataset
from lamatext.training.checkpoint import TrainingState, load_checkpoint
from lamatext.training.loop import (
    LoopSettings,
    fit,
    predict_logits,
    training_loss,
)

CPU = torch.device("cpu")
MODEL = ModelSettings(name="lama-encoder", heads=2, classifier_width=4, dropout=0.3)


def examples(count: int, *, seed: int) -> EncodedDataset:
    """Class 1 has the word 2 in it, class 0 the word 3."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    rows = [
        np.append(draw.integers(4, 12, draw.integers(1, 9)), 3 - label).tolist() for label in labels
    ]
    return EncodedDataset(TokenIds.from_lists(rows), labels)


TRAIN, VALID = examples(60, seed=0), examples(20, seed=1)


def network(model: ModelSettings = MODEL) -> nn.Module:
    torch.manual_seed(0)
    return build_network(model, vocabulary=12, width=5, classes=2)


def plan(checkpoint: Path | None = None, **values: Any) -> LoopSettings:
    given = {
        "batch_size": 8, "epochs": 4, "optimizer": "adamw", "learning_rate": 0.01, **values,
    }  # fmt: skip
    return LoopSettings(
        MODEL, TrainingSettings.model_validate(given), 7, CPU, checkpoint=checkpoint, run_id="me"
    )


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


OPTIMIZERS: list[dict[str, Any]] = [
    {"optimizer": "sgd", "schedule": "plateau", "learning_rate": 0.1},
    {"optimizer": "adam", "schedule": "constant"},
    {"optimizer": "adamw", "schedule": "one-cycle", "gradient_clip": 0.5},
]


@pytest.mark.parametrize("values", OPTIMIZERS)
def test_a_seed_makes_two_runs_bit_identical(values: dict[str, Any]) -> None:
    first, second = network(), network()

    fit(first, TRAIN, VALID, plan(**values))
    fit(second, TRAIN, VALID, plan(**values))

    assert same(first.state_dict(), second.state_dict())


class Copies(Progress):
    """Keeps the checkpoint of every epoch."""

    def __init__(self, checkpoint: Path, folder: Path) -> None:
        self.checkpoint, self.folder = checkpoint, folder

    def note(self, text: str) -> None:
        epoch = text.split()[1].partition("/")[0]
        shutil.copy(self.checkpoint, self.folder / epoch)


@pytest.mark.parametrize("values", OPTIMIZERS)
def test_a_run_resumed_at_any_epoch_ends_with_the_same_weights(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    path, whole = tmp_path / "run.safetensors", network()
    state = fit(whole, TRAIN, VALID, plan(path, **values), Copies(path, tmp_path))

    end = load_checkpoint(path, "me")
    for epoch in range(1, state.epoch + 1):
        resumed = network()
        with torch.no_grad():
            for parameter in resumed.parameters():
                parameter.zero_()  # all must come from the checkpoint
        fit(resumed, TRAIN, VALID, plan(tmp_path / str(epoch), **values))

        assert same(resumed.state_dict(), whole.state_dict())
        assert_same_course(load_checkpoint(tmp_path / str(epoch), "me"), end)


def test_the_epochs_that_follow_are_announced(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    class Announced(Copies):
        def __init__(self) -> None:
            super().__init__(path, tmp_path)
            self.epochs: list[tuple[str, int]] = []

        def expect(self, name: str, count: int) -> None:
            self.epochs.append((name, count))

    progress = Announced()
    fit(network(), TRAIN, VALID, plan(path, epochs=3), progress)
    fit(network(), TRAIN, VALID, plan(tmp_path / "2", epochs=3), progress)

    assert progress.epochs == [("epoch", 3), ("epoch", 1)]


def assert_same_course(found: TrainingState, state: TrainingState) -> None:
    for part in ("weights", "best_weights", "optimizer"):
        assert same(getattr(found, part), getattr(state, part)), part
    assert [(r.epoch, r.loss, r.accuracy, r.learning_rate) for r in found.history] == [
        (r.epoch, r.loss, r.accuracy, r.learning_rate) for r in state.history
    ]
    assert (found.epoch, found.learning_rate, found.best_epoch, found.best_accuracy) == (
        state.epoch,
        state.learning_rate,
        state.best_epoch,
        state.best_accuracy,
    )


def test_a_run_killed_in_its_first_epoch_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    class Killed(Progress):
        def advance(self, *_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(network(), TRAIN, VALID, plan(path), Killed())
    resumed, whole = network(), network()
    fit(resumed, TRAIN, VALID, plan(path))
    fit(whole, TRAIN, VALID, plan())

    assert same(resumed.state_dict(), whole.state_dict())


def accuracies(monkeypatch: pytest.MonkeyPatch, values: Sequence[float]) -> None:
    """The validation accuracy of each epoch, whatever the network says."""
    given = iter(values)
    monkeypatch.setattr(loop, "validation_score", lambda *_: next(given))


def test_the_learning_rate_is_halved_when_validation_accuracy_stalls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accuracies(monkeypatch, [0.5, 0.4, 0.6, 0.6, 0.7])

    state = fit(network(), TRAIN, VALID, plan(epochs=5, schedule="plateau", learning_rate=0.8))

    assert [record.learning_rate for record in state.history] == [0.8, 0.8, 0.4, 0.4, 0.2]


def test_the_learning_rate_can_wait_two_stalled_epochs_before_each_halving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accuracies(monkeypatch, [0.5, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6])
    two = plan(epochs=8, schedule="plateau", plateau_epochs=2, learning_rate=0.8)

    state = fit(network(), TRAIN, VALID, two)

    rates = [record.learning_rate for record in state.history]
    assert rates == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2]


def test_a_run_stops_when_it_is_out_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies(monkeypatch, [0.5, 0.7, 0.6, 0.7, 0.1, 0.9])

    state = fit(network(), TRAIN, VALID, plan(epochs=50, patience=3))

    assert (state.epoch, state.best_epoch, state.best_accuracy) == (5, 2, 0.7)


def test_the_network_ends_with_the_weights_of_the_best_epoch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, best = tmp_path / "run", network()
    accuracies(monkeypatch, [0.5, 0.9, 0.6, 0.7])

    fit(best, TRAIN, VALID, plan(path, schedule="constant"), Copies(path, tmp_path))

    assert same(best.state_dict(), load_checkpoint(tmp_path / "2", "me").weights)


def test_the_last_weights_are_kept_where_the_settings_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, last = tmp_path / "run", network()
    accuracies(monkeypatch, [0.5, 0.9, 0.6, 0.7])

    state = fit(
        last, TRAIN, VALID, plan(path, schedule="constant", keep_weights="last", patience=1)
    )

    assert state.epoch == 4
    assert same(last.state_dict(), load_checkpoint(path, "me").weights)


def test_a_class_with_nearly_all_the_weight_is_always_predicted() -> None:
    weights = torch.tensor([1e-6, 1.0])
    asked = plan(epochs=6, keep_weights="last")._replace(class_weights=weights)
    trained = network()

    fit(trained, TRAIN, VALID, asked)

    assert (predict_logits(trained, VALID, CPU).argmax(axis=1) == 1).all()


def test_gradient_clipping_bounds_the_step() -> None:
    def step_of(**values: Any) -> float:
        trained, before = network(), network()
        one = EncodedDataset(TRAIN.token_ids.take(np.arange(8)), TRAIN.labels[:8])
        fit(trained, one, VALID, plan(optimizer="sgd", epochs=1, weight_decay=0, **values))
        moved = [
            (a - b).detach().square().sum()
            for a, b in zip(trained.parameters(), before.parameters(), strict=True)
        ]
        return float(torch.stack(moved).sum().sqrt())

    assert step_of(learning_rate=1.0) > 1e-2
    assert step_of(learning_rate=1.0, gradient_clip=1e-3) == pytest.approx(1e-3, rel=1e-2)


def test_the_loop_learns() -> None:
    trained = network()

    state = fit(trained, TRAIN, VALID, plan(epochs=30, patience=30, learning_rate=0.03))

    assert state.best_accuracy >= 0.95
    assert loop.validation_score(trained, VALID, plan()) == state.best_accuracy


def test_a_diverging_loss_ends_the_run_with_advice() -> None:
    with pytest.raises(ModelError, match=r"diverged in epoch \d.*training.learning_rate"):
        fit(network(), TRAIN, VALID, plan(optimizer="sgd", learning_rate=1e30, epochs=3))


def test_logits_have_the_row_order_of_the_dataset() -> None:
    trained = network().eval()

    together = predict_logits(trained, VALID, CPU)

    for row in range(len(VALID)):
        one = EncodedDataset(VALID.token_ids.take(np.array([row])), VALID.labels[[row]])
        np.testing.assert_allclose(predict_logits(trained, one, CPU)[0], together[row], atol=1e-6)


def test_progress_counts_the_batches() -> None:
    class Counted(Progress):
        def __init__(self) -> None:
            self.totals: list[int | None] = []
            self.steps = 0

        def stage(self, name: str, total: int | None = None) -> None:
            assert name
            self.totals.append(total)

        def advance(self, steps: int = 1, detail: str = "") -> None:
            assert not detail
            self.steps += steps

    seen = Counted()
    fit(network(), TRAIN, VALID, plan(epochs=2), seen)

    assert seen.totals == [8, 8]
    assert seen.steps == 16


SYSTEMS = ("lama-encoder", "lama-ctx-dp", "lama-ctx-de")  # the latter two with disagreement terms


def loss_of(
    name: str,
    rows: list[int],
    weights: list[float] | None,
    class_weights: list[float] | None = None,
) -> tuple[float, Tensor]:
    """Loss of some training texts and its gradient by the embedding, without dropout."""
    model = ModelSettings.model_validate(
        {"name": name, "heads": 2, "hidden_size": 3, "dropout": 0.0, "disagreement_weight": 0.3}
    )
    trained = network(model)
    settings = LoopSettings(model, TrainingSettings(), 0, CPU)
    if class_weights is not None:
        settings = settings._replace(class_weights=torch.tensor(class_weights))
    ids, lengths = map(torch.from_numpy, TRAIN.token_ids.pad(np.array(rows)))
    output, labels = trained(ids, lengths), torch.from_numpy(TRAIN.labels[rows])
    each = None if weights is None else torch.tensor(weights)
    loss = training_loss(output, labels, settings, each)
    loss.backward()  # type: ignore[no-untyped-call]
    gradient = trained.get_parameter("embedding.weight").grad
    assert gradient is not None
    return loss.item(), gradient


@pytest.mark.parametrize("class_weights", [None, [0.5, 2.0]])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_text_of_weight_zero_is_left_out_of_the_loss(
    name: str, class_weights: list[float] | None
) -> None:
    weighted, gradient = loss_of(name, [0, 1, 2, 3], [1.0, 0.0, 1.0, 0.0], class_weights)
    left_out, expected = loss_of(name, [0, 2], None, class_weights)

    assert weighted == pytest.approx(left_out, rel=1e-5)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_text_of_weight_two_counts_like_two_texts(name: str) -> None:
    weighted, gradient = loss_of(name, [0, 1, 2], [1.0, 2.0, 1.0])
    repeated, expected = loss_of(name, [0, 1, 1, 2], None)

    assert weighted == pytest.approx(repeated, rel=1e-5)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_a_batch_whose_weights_are_all_zero_has_no_gradient() -> None:
    loss, gradient = loss_of("lama-ctx-dp", [0, 1], [0.0, 0.0])

    assert loss == 0
    assert not gradient.any()


def test_the_mean_loss_of_an_epoch_is_weighted_too() -> None:
    """At a learning rate of almost 0 the epoch's loss is the weighted mean over all texts."""
    weights = np.random.default_rng(0).random(len(TRAIN)).astype(np.float32)
    data = EncodedDataset(TRAIN.token_ids, TRAIN.labels, weights)
    trained = network(MODEL.model_copy(update={"dropout": 0.0}))
    logits = torch.from_numpy(predict_logits(trained, TRAIN, CPU))
    losses = torch.nn.functional.cross_entropy(
        logits, torch.from_numpy(TRAIN.labels), reduction="none"
    ).numpy()

    state = fit(trained, data, VALID, plan(epochs=1, learning_rate=1e-12))

    assert state.history[0].loss == pytest.approx(np.average(losses, weights=weights), rel=1e-4)
