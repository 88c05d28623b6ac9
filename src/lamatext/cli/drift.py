"""``lamatext drift``: say how new texts differ from the texts of a model's training."""

import json
from collections.abc import Iterator
from dataclasses import replace

from lamatext.cli import options, output

NAME = "drift"
EXAMPLES = "lamatext drift runs/reviews new.csv"


def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    data: options.Data,
    text_column: options.TextColumns = None,
    format_: options.Format = None,
    encoding: options.Encoding = None,
    separator: options.Separator = None,
    max_record: options.MaxRecord = options.DEFAULT_MAX_RECORD,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Compare new texts with a model's validation texts: unknown words, outliers and labels."""
    from lamatext.data.readers.table import join_columns
    from lamatext.data.sources import open_table
    from lamatext.drift import measure_drift
    from lamatext.runtime.predictor import Predictor
    from lamatext.saved.format import load_config, remembered_layout
    from lamatext.views.terminal_drift import show_drift

    reading = options.read_options(
        text_column,
        max_record,
        None,
        format=format_ or ("lines" if data == "-" else None),
        encoding=encoding,
        separator=separator,
    )
    reading = replace(reading, remembered=remembered_layout(load_config(model)))
    predictor = Predictor.load(model)
    table = open_table(data, reading)
    columns, batches = table.text_batches(reading)
    with output.progress(quiet=quiet) as progress:
        progress.stage("predicting")

        def texts() -> Iterator[list[str]]:
            for batch in batches:
                parts = [batch.column(batch.schema.names.index(name)) for name in columns]
                yield join_columns(parts).to_pylist()
                progress.advance(len(batch))

        drift = measure_drift(predictor, texts(), data)
    if as_json:
        print(json.dumps(drift.as_dict()))
        return
    show_drift(output.out(), drift)
    if not quiet and data != "-":
        output.next_steps(
            output.command("predict", model, data, "--outlier", "--out", "outliers.csv")
        )
