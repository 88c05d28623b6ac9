"""Operations and time of attention layers as their sizes grow."""

from pathlib import Path

import pytest

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
