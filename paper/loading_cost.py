"""Time and memory of reading the paper's data sets from made-up files in the official formats.

The official files of Yelp may not be redistributed. Files of the same format, size and
mean length show that the loaders work at real size.
"""

import json
import os
import subprocess  # nosec B404 # runs this Python with fixed arguments
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from lamatext.data.named_datasets import DATA_VARIABLE
from paper.markdown import MISSING, markdown_table
from paper.records import Record, Records

EXPERIMENT = "loading"
REAL_SIZES = {  # lines of the official files: training and test part where there are two
    "yelp": (5_000_000,),
    "yelp-polarity": (560_000, 38_000),
    "news": (422_419,),
    "imdb": (25_000, 25_000),
    "r8": (5_485, 2_189),
}
MEAN_WORDS = {"yelp": 118, "yelp-polarity": 137, "news": 9, "imdb": 230, "r8": 66}
FORMATS = {
    "yelp": "review.json",
    "yelp-long": "review.json of yelp",
    "yelp-polarity": "train.csv, test.csv",
    "news": "newsCorpora.csv",
    "imdb": "aclImdb",
    "r8": "r8-train-all-terms.txt, r8-test-all-terms.txt",
}
METRICS = ("texts", "seconds", "megabytes", "file megabytes")
BODIES = 1_000  # different texts; each line adds its number
_READ = """
import json, resource, sys, time
from paper.official_datasets import load_paper_dataset
started = time.perf_counter()
texts = sum(len(load_paper_dataset(sys.argv[1], split)) for split in ("train", "test"))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"texts": texts, "seconds": time.perf_counter() - started, "megabytes": peak}))
"""


def measure_loading(records: Records, *, share: float = 1.0) -> None:
    """Record texts, seconds and peak memory of loading both parts of each data set.

    ``share`` scales the made-up files; 1 is the size of the official ones.
    """
    config: dict[str, object] = {} if share == 1 else {"share": share}
    waiting = {
        name: [
            Record(EXPERIMENT, name, "", metric, 0.0, device="CPU", config=config)
            for metric in METRICS
        ]
        for name in FORMATS
    }
    pending = [name for name, rows in waiting.items() if not records.has(rows[0].key)]
    if not pending:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, sizes in REAL_SIZES.items():
            write_made_up(root / name, name, [max(int(size * share), 50) for size in sizes])
        for name in pending:
            costs = _load_in_new_process(name, root)
            costs["file megabytes"] = _megabytes(root / name.removesuffix("-long"))
            records.add(
                replace(record, value=round(costs[record.metric], 2)).with_provenance()
                for record in waiting[name]
            )


def _load_in_new_process(name: str, root: Path) -> dict[str, float]:
    result = subprocess.run(  # nosec B603 # fixed arguments
        [sys.executable, "-c", _READ, name],
        env={**os.environ, DATA_VARIABLE: str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    costs: dict[str, float] = json.loads(result.stdout)
    return costs


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def write_made_up(folder: Path, name: str, sizes: list[int]) -> None:
    """Write made-up files in the official format of a data set."""
    folder.mkdir(parents=True)
    bodies = _bodies(MEAN_WORDS[name])
    parts = list(zip(("train", "test"), sizes, strict=False))
    if name == "yelp":
        lines = (
            f'{{"review_id":"{n:022d}","user_id":"u{n % 99991}","business_id":"b{n % 7919}",'
            f'"stars":{n % 5 + 1}.0,"useful":0,"funny":0,"cool":0,'
            f'"text":"{bodies[n % BODIES]} {n}","date":"2017-01-01 00:00:00"}}\n'
            for n in range(sizes[0])
        )
        _write(folder / "yelp_academic_dataset_review.json", lines)
    elif name == "yelp-polarity":
        for part, size in parts:
            lines = (f'"{n % 2 + 1}","{bodies[n % BODIES]} {n}"\n' for n in range(size))
            _write(folder / f"{part}.csv", lines)
    elif name == "news":
        lines = (
            f"{n}\t{bodies[n % BODIES]} {n}\thttp://example.com/{n}\tReuters\t{'betm'[n % 4]}"
            f"\ts{n}\texample.com\t1394470{n:06d}\n"
            for n in range(sizes[0])
        )
        _write(folder / "newsCorpora.csv", lines)
    elif name == "r8":
        labels = ("acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade")
        for part, size in parts:
            lines = (f"{labels[n % 8]}\t{bodies[n % BODIES]} {n}\n" for n in range(size))
            _write(folder / f"r8-{part}-all-terms.txt", lines)
    else:
        _write_reviews(folder / "aclImdb", parts, bodies)


def _write_reviews(folder: Path, parts: list[tuple[str, int]], bodies: list[str]) -> None:
    """Write one file per review, in the folders of aclImdb."""
    for part, size in parts:
        for label in ("pos", "neg"):
            (folder / part / label).mkdir(parents=True)
        for n in range(size):
            file = folder / part / ("pos", "neg")[n % 2] / f"{n}_{9 if n % 2 else 2}.txt"
            file.write_text(f"{bodies[n % BODIES]}<br /><br />{n}", encoding="utf-8")


def _write(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)


def _bodies(mean_words: int) -> list[str]:
    """Return different texts of random words whose mean length is that of the official texts."""
    generator = np.random.default_rng(0)
    lengths = generator.geometric(1 / mean_words, BODIES)
    words = np.array([f"w{n}" for n in range(5_000)])
    return [" ".join(chain(generator.choice(words, n), repeat(".", 1))) for n in lengths]


def loading_table(records: Records) -> str:
    """Format the loading costs of each data set at the size of its official files."""
    found = {(r.dataset, r.metric): r.number for r in records.of(EXPERIMENT)}

    def cell(name: str, metric: str) -> str:
        value = found.get((name, metric))
        return MISSING if value is None else f"{value:,.0f}"

    rows = [[name, files, *(cell(name, m) for m in METRICS)] for name, files in FORMATS.items()]
    header = ("data set", "made-up files", "texts used", "seconds", "peak MB", "files, MB")
    return markdown_table(header, rows, text_columns=2)
