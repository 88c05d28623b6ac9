"""How the layers grow, counted and timed."""

from pathlib import Path

import pytest

from paper.records import Results
from paper.timing import measure_growth


def test_the_operations_of_lama_grow_with_the_words(tmp_path: Path) -> None:
    results = Results(tmp_path)

    measure_growth(results, repeats=1, largest=128)

    counted = {
        int(str(record.config["n"])): float(str(record.value))
        for record in results.of("complexity")
        if record.metric == "operations"
        and record.model == "LAMA, scores of u"
        and record.config["grows"] == "n"
    }
    few, many = min(counted), max(counted)
    assert counted[many] / counted[few] == pytest.approx(many / few, rel=0.1)
