"""Peak memory of ``lamatext predict`` as its input grows: a stream must not pile up."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure
from benchmarks.models import save_untrained
from lamatext.data.dataset import Dataset
from lamatext.data.sources import load
from lamatext.recipes import load_recipe

WORDS = 20  # of a line

# Runs the command line in a process of its own and tells the peak of its resident memory.
PROBE = """
import resource, sys
from lamatext.cli.main import run
status = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def figures(source: str = "mr", *, few: int = 10_000, many: int = 1_000_000) -> list[Figure]:
    """The peak at ``many`` texts over the peak at ``few``."""
    corpus = load(source)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        recipe = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
        model = save_untrained(place / "model", recipe, corpus)
        peaks = [_peak(model, _lines(place / f"{n}.txt", corpus, n)) for n in (few, many)]
    return [
        Figure(
            "1M texts, 10k texts",
            *(peaks[1] / peaks[0],) * 3,
            peaks[1],
            peaks[0],
            "MB",
            {"few": few, "many": many},
        )
    ]


def _peak(model: Path, texts: Path) -> float:
    """Megabytes of the process that labels the texts."""
    out = texts.with_suffix(".csv")
    command = ["predict", str(model), str(texts), "--format", "lines", "--out", str(out), "-q"]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *command], check=True, capture_output=True, text=True
    )
    out.unlink()
    texts.unlink()
    return int(done.stderr.split()[-1]) / 1e3


def _lines(path: Path, corpus: Dataset, count: int) -> Path:
    """``count`` lines of as many words each, drawn from the corpus."""
    words = np.array(" ".join(corpus.texts.slice(0, 500).to_pylist()).split())
    draw = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, 10_000):
            rows = draw.choice(words, (min(10_000, count - start), WORDS))
            file.write("\n".join(map(" ".join, rows.tolist())) + "\n")
    return path
