"""Peak memory of ``lamatext predict`` at one million texts, compared with ten thousand."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.comparison import Comparison
from benchmarks.untrained_models import save_untrained
from lamatext.data.dataset import Dataset
from lamatext.recipes import load_recipe
from paper.official_datasets import load_paper_dataset

WORDS_PER_LINE = 20

# Runs the command line in its own process and prints its peak resident memory.
PROBE = """
import resource, sys
from lamatext.cli.main import run
status = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def measure(source: str = "mr", *, few: int = 10_000, many: int = 1_000_000) -> list[Comparison]:
    """Return the ratio of peak memory at ``many`` texts to that at ``few``."""
    dataset = load_paper_dataset(source)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        recipe = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
        model = save_untrained(place / "model", recipe, dataset)
        peaks = [_peak_memory(model, _write_lines(place, dataset, count)) for count in (few, many)]
    details = {"few": few, "many": many}
    return [Comparison.single("1M texts, 10k texts", (peaks[1], peaks[0]), "MB", details)]


def _peak_memory(model: Path, texts: Path) -> float:
    """Return the peak memory in MB of a process that predicts the labels of a file."""
    out = texts.with_suffix(".csv")
    command = ["predict", str(model), str(texts), "--format", "lines", "--out", str(out), "-q"]
    process = subprocess.run(
        [sys.executable, "-c", PROBE, *command], check=True, capture_output=True, text=True
    )
    out.unlink()
    texts.unlink()
    return int(process.stderr.split()[-1]) / 1e3


def _write_lines(folder: Path, dataset: Dataset, count: int) -> Path:
    """Write ``count`` lines of random words of the data set, as input for the memory test."""
    words = np.array(" ".join(dataset.texts.slice(0, 500).to_pylist()).split())
    draw = np.random.default_rng(0)
    path = folder / f"{count}.txt"
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, 10_000):
            rows = draw.choice(words, (min(10_000, count - start), WORDS_PER_LINE))
            file.write("\n".join(map(" ".join, rows.tolist())) + "\n")
    return path
