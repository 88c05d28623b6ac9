"""The open directions: equal sizes, made-up word-order tasks, words after "not", text lengths."""

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from lamatext.data.token_ids import TokenIds
from lamatext.nn.network import build_network, count_parameters
from lamatext.settings import Recipe
from lamatext.training.batching import EncodedDataset
from paper import length_scaling, open_directions
from paper.open_directions import EQUAL_SIZES, default_settings, directions_table, settings_of
from paper.records import PAPER_RECORDS, Records
from paper.training_run import TrainingRun
from paper.word_order import MARK, ONE, TASKS, made_up_dataset, negation_weights, shuffled_accuracy

CPU = torch.device("cpu")


def test_all_systems_have_the_parameters_of_lama_ctx() -> None:
    counts = {}
    for model in EQUAL_SIZES:
        recipe = TrainingRun("open-directions", "mr", model, settings=settings_of(model)).recipe
        width = recipe.text.vector_width
        network = build_network(recipe.model, vocabulary=1_000, width=width, classes=2)
        counts[model] = sum(count_parameters(network).values())

    for model, count in counts.items():
        assert count == pytest.approx(counts["lama-ctx"], rel=0.01), model


@pytest.mark.parametrize("task", TASKS)
def test_partners_of_a_made_up_task_have_the_same_words_and_other_labels(task: str) -> None:
    data = made_up_dataset(task)

    for row in range(0, len(data.labels), 2):
        one, other = data.tokens.rows[row], data.tokens.rows[row + 1]
        assert Counter(one.tolist()) == Counter(other.tolist())
        assert data.labels[row] != data.labels[row + 1]
        assert (one != other).sum() == 2


def test_the_labels_of_the_made_up_tasks_are_their_word_orders() -> None:
    first, following = made_up_dataset("made-up-first"), made_up_dataset("made-up-next")

    for row in range(200):
        text = first.tokens.rows[row].tolist()
        assert (text.index(ONE) < text.index(1)) == (first.labels[row] == 0)
        text = following.tokens.rows[row].tolist()
        assert (text[text.index(MARK) + 1] == ONE) == (following.labels[row] == 0)


def tiny_network(model: str) -> torch.nn.Module:
    torch.manual_seed(0)
    recipe = Recipe().with_values({"model.name": model, "model.heads": 2})
    return build_network(recipe.model, vocabulary=9, width=6, classes=2).eval()


def test_shuffling_words_changes_nothing_for_le() -> None:
    rows = [[2, 3, 4, 5], [6, 7], [8, 2, 2, 5, 3, 7]]
    test = EncodedDataset(TokenIds.from_lists(rows), np.array([0, 1, 0]))
    network = tiny_network("lama-encoder")
    logits = [network(torch.tensor([row]), torch.tensor([len(row)])).logits for row in rows]
    right = [int(row.argmax()) == label for row, label in zip(logits, test.labels, strict=True)]

    assert shuffled_accuracy(network, test, CPU) == np.mean(right)


def test_the_weight_of_a_word_after_not_is_told_from_that_elsewhere() -> None:
    words = ("", "", "not", "a", "good", "film", "great", "so", "it")
    rows = [[2, 3, 4, 5], [4, 5, 2], [8, 2, 7, 7, 4]]
    network = tiny_network("lama-ctx")
    test = EncodedDataset(TokenIds.from_lists(rows), np.array([0, 1, 0]))

    found = negation_weights(network, test, words, CPU)

    weights = [
        network(torch.tensor([row]), torch.tensor([len(row)])).weights[0].detach().mean(0)
        * len(row)
        for row in rows
    ]
    value = found["weight of good"]
    assert isinstance(value, dict)
    assert value["after not"] == pytest.approx(float(weights[0][2]), abs=1e-3)
    assert value["of not"] == pytest.approx(float(weights[0][0]), abs=1e-3)
    elsewhere = (float(weights[1][0]) + float(weights[2][4])) / 2
    assert value["elsewhere"] == pytest.approx(elsewhere, abs=1e-3)
    assert (value["count after not"], value["count elsewhere"]) == (1, 2)
    assert found.keys() == {"weight of good"}


def test_the_default_encoder_runs_differ_in_the_encoder_only() -> None:
    ctx, blocks = (dict(default_settings(name)) for name in ("lama-ctx", "lama-blocks"))

    assert ctx.pop("model.hidden_size") == 64
    assert ctx == blocks
    assert ctx["training.optimizer"] == "adamw"
    assert not any(run.is_tested for run in open_directions.encoder_runs("mr"))


def test_the_table_has_the_mean_the_spread_and_the_seeds(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for seed, accuracy in enumerate((0.8, 0.82)):
        run = TrainingRun("open-directions", "mr", "te", seed, None, settings_of("te"))
        records.add([run.record("accuracy", accuracy)])

    assert "| TE | – | .810 ± 1.4 (2) | – |" in directions_table(records)


def test_lengths_are_measured_once_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(length_scaling, "MODELS", ("lama-encoder", "lama-phrases"))
    monkeypatch.setattr(length_scaling, "WORDS_PER_BATCH", 128)
    records = Records(tmp_path)

    length_scaling.measure_lengths(records, CPU, lengths=(16, 64))
    again = Records(tmp_path)
    length_scaling.measure_lengths(again, CPU, lengths=(16, 64))

    assert len(again.of("text-lengths")) == 16  # systems, tasks, lengths, time and memory
    assert [r.value for r in again.of("text-lengths")] == [
        r.value for r in records.of("text-lengths")
    ]


def test_blocks_and_the_gru_learn_both_made_up_tasks_and_le_is_at_chance() -> None:
    accuracies = {
        (record.dataset, record.model): record.number
        for record in Records(PAPER_RECORDS).of("word-order")
        if record.metric == "accuracy"
    }

    for task in TASKS:
        assert accuracies[task, "lama-encoder"] == 0.5
        assert min(accuracies[task, "lama-blocks"], accuracies[task, "lama-ctx"]) > 0.95


def test_a_slow_first_run_is_a_warm_up_and_not_the_measured_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(length_scaling, "MAX_SECONDS", 0.01)
    pauses = [0.2, 0.0, 0.0, 0.0]

    seconds, _ = length_scaling._timed(lambda: time.sleep(pauses.pop(0)), CPU)

    assert seconds < 0.1
    assert pauses == []
