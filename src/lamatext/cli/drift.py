"""``lamatext drift``: show how new texts differ from the validation texts of a model."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lamatext.cli import options, output
from lamatext.cli.text_input import TextInput

if TYPE_CHECKING:
    from lamatext.data.read_options import ReadOptions

NAME = "drift"
EXAMPLES = "lamatext drift runs/reviews new.csv"


@options.reads(*options.TEXTS)
def run(
    model: options.Model,
    data: options.Data,
    *,
    reading: "ReadOptions",
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Measure the drift of new texts from a model's validation texts: words, outliers, labels."""
    from lamatext.input_drift import measure_drift
    from lamatext.runtime.predictor import Predictor
    from lamatext.views.terminal_drift import show_drift

    predictor = Predictor.load(model)
    source = TextInput.open(model, data, reading)
    with output.progress(quiet=quiet) as progress:
        progress.stage("predicting")

        def texts() -> Iterator[list[str]]:
            for batch in source.texts():
                yield batch
                progress.advance(len(batch))

        drift = measure_drift(predictor, texts(), data)
    source.show_reading(quiet=quiet)
    if as_json:
        print(json.dumps(drift.as_dict()))
        return
    show_drift(output.out(), drift)
    if not quiet and data != "-":
        rest = ("--out", output.unused_name("outliers.csv"), *output.reading_options(reading))
        output.next_steps(output.command("predict", model, data, "--outlier", *rest))
