"""Operations and time of attention layers as their sizes grow."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lamatext.data.token_ids import TokenIds
from lamatext.data.tokenizer import TokenizedTexts
from paper import runtime
from paper.datasets import TokenizedDataset
from paper.records import Records
from paper.runtime import measure_scaling


def test_the_operations_of_lama_grow_linearly_with_the_words(tmp_path: Path) -> None:
    records = Records(tmp_path)

    measure_scaling(records, repeats=1, largest=128)

    counted = {
        int(str(record.config["n"])): float(str(record.value))
        for record in records.of("complexity")
        if record.metric == "operations"
        and record.model == "LAMA, projected states"
        and record.config["grows"] == "n"
    }
    few, many = min(counted), max(counted)
    assert counted[many] / counted[few] == pytest.approx(many / few, rel=0.1)


def test_both_encoders_are_timed_without_our_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches: list[tuple[str | None, ...]] = []

    def time_passes(_: object, model: str, *__: object) -> tuple[list[float], int]:
        values = (os.environ.get(name) for name in ("LAMATEXT_ATTENTION", "LAMATEXT_STEPS"))
        switches.append((model, *values))
        return [1.0], 1

    monkeypatch.delenv("LAMATEXT_STEPS", raising=False)
    monkeypatch.setattr(runtime, "_time_passes", time_passes)
    data = TokenizedDataset(
        "r8", TokenizedTexts((), TokenIds.from_lists([])), np.zeros(0, np.int64), 0, ()
    )

    runtime.time_epochs(Records(tmp_path), data, torch.device("cpu"), lengths=(50,))

    assert switches == [("lama-encoder", "plain", "plain"), ("te", "plain", "plain")]
    assert "LAMATEXT_STEPS" not in os.environ


def test_the_hours_of_an_epoch_are_scaled_to_the_size_of_yelp_polarity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "HOUR_MODELS", ("lama-ctx",))

    runtime.time_hours(Records(tmp_path), torch.device("cpu"), texts=4)

    record = Records(tmp_path).of("runtime")[0]
    assert (record.model, record.metric) == ("lama-ctx", "hours per epoch")
    assert record.number > 0.01  # a text takes more than 0.1 ms
