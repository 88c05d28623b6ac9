"""A small run of the streaming benchmark."""

from pathlib import Path

import pytest

from benchmarks import streaming
from paper.records import Records


@pytest.mark.slow
def test_every_stage_has_its_seconds_and_peak_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming.run(rows=3_000, out=tmp_path)

    found = {record.metric: record.number for record in Records(tmp_path).of("streaming")}
    assert {f"{stage}_megabytes" for stage in streaming.STAGES} < found.keys()
    assert found["epoch_cpu_seconds_computed"] == pytest.approx(
        20 * found["epoch_part_cpu_seconds"]
    )
    assert all(value > 100 for name, value in found.items() if name.endswith("_megabytes"))
    assert "streaming, 3000 rows" in capsys.readouterr().out
