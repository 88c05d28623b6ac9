"""Peak memory of ``lamatext predict`` does not grow with the number of texts."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

LINE = "a dull film of two people in a small town and the superb story of a film is of an hour\n"

MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_of(place: Path, lines: int, out: str) -> int:
    """Return the peak memory of ``lamatext predict`` as the operating system counts it."""
    (place / "in.txt").write_text(LINE * lines)
    predict = [sys.executable, "-m", "lamatext", "predict", "model", "in.txt", "--out", out]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *predict, "-q", "--force"],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "RUSAGE_CHILDREN"), reason="needs a Unix")
@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_memory_does_not_grow_with_the_input(out: str, place: Path) -> None:
    few, many = (peak_of(place, lines, out) for lines in (10_000, 100_000))

    assert many <= 1.1 * few
