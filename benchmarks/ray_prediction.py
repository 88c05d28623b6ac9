"""``python -m benchmarks ray``: throughput of batch prediction on Ray.

Two workers are compared with one, and with the plain command; that one also with reading and
writing alone, which limits how many workers one process can serve.

All read the same Parquet file and write folders of parts, on the same cores. Ray and its workers
are started before the clock: that takes a few seconds, for a thousand texts as for a billion.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.accuracy_jobs import RECORDS, Folder
from benchmarks.comparison import Comparison, Target, time_alternating, write_records
from benchmarks.untrained_models import save_untrained
from lamatext.data.readers.format_detection import file_table
from lamatext.errors import ConfigError, require
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.recipes import load_recipe
from lamatext.runtime.predict_table import predict_batches
from lamatext.runtime.prediction_parts import (
    PART_ROWS,
    PartEngine,
    PredictionOutput,
    describe_job,
    local_engine,
    predict_in_parts,
)
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.ray_engine import RayActors, connect, read_model_files
from paper.official_datasets import load_paper_dataset

WORKERS = (1, 2)
TARGETS = {"2 workers, 1 worker": Target(1.6), "2 workers, plain command": Target(0.8)}


def run(
    parts: Annotated[int, typer.Option(help="Parts of 10,000 texts.")] = 16,
    rounds: Annotated[int, typer.Option(help="Repetitions, in alternation.")] = 3,
    records: Folder = RECORDS,
) -> None:
    """Record the throughput of two workers on Ray against one, and the plain command."""
    comparisons = measure(parts=parts, rounds=rounds)
    for comparison in comparisons:
        target = TARGETS.get(comparison.metric, "none")
        print(f"{comparison.metric}: {comparison.ratio:.2f} (target {target})")
    write_records("ray", comparisons, records)


def measure(source: str = "mr", *, parts: int, rounds: int) -> list[Comparison]:
    """Compare the throughput of batch prediction on Ray in texts per second."""
    if usable_cores() < max(WORKERS):
        raise ConfigError("this benchmark needs at least two cores.")
    ray = require("ray", extra="ray", purpose="this benchmark")
    train = load_paper_dataset(source)
    rows = np.random.default_rng(0).integers(0, len(train), parts * PART_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pq.write_table(pa.table({"text": train.take(rows).texts}), place / "texts.parquet")
        recipe = load_recipe("default").with_values({"ngrams.characters": False})
        model = save_untrained(place / "model", recipe, train)
        connect(ray, None, sum(WORKERS))
        try:
            engines: dict[str, PartEngine] = {
                f"{count} on Ray": _start(ray, model, count).compute for count in WORKERS
            }
            label = partial(predict_batches, Predictor.load(model), text_columns=["text"])
            engines["plain"] = local_engine(lambda batches: label(batches=batches))
            engines["no model"] = local_engine(iter)  # reading and writing alone
            runs = {name: _job(place, engine) for name, engine in engines.items()}
            seconds = time_alternating(runs, rounds)
        finally:
            ray.shutdown()
    speeds = {name: [len(rows) / taken for taken in times] for name, times in seconds.items()}
    two = speeds[f"{WORKERS[-1]} on Ray"]
    return [
        Comparison.throughput("2 workers, 1 worker", (two, speeds["1 on Ray"]), "texts/s"),
        Comparison.throughput("2 workers, plain command", (two, speeds["plain"]), "texts/s"),
        Comparison.throughput(
            "plain command, no model", (speeds["plain"], speeds["no model"]), "texts/s"
        ),
    ]


def _start(ray: object, model: Path, count: int) -> RayActors:
    """Start workers on Ray and wait until all have loaded the model."""
    actors = RayActors(ray, read_model_files(ray, model), ("text",), {})
    actors.start(count)
    actors.wait_until_ready()
    return actors


def _job(place: Path, engine: PartEngine) -> Callable[[], int]:
    """Return a batch job that predicts the file into a new folder of parts."""
    source = str(place / "texts.parquet")
    job = describe_job(source, text_columns=["text"], model={"hash": ""}, options={})

    def run() -> int:
        output = PredictionOutput.parse(f"{place / str(time.monotonic_ns())}/")
        return predict_in_parts(output, job, file_table(source).all_batches(), engine)

    return run
