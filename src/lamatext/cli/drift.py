"""``lamatext drift``: say how new texts differ from the texts of a model's training."""

import json
from collections.abc import Iterator

from lamatext.cli import options, output
from lamatext.cli.text_input import TextInput

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
    max_bad_rows: options.MaxUnreadableRows = options.BAD_ROWS_DEFAULT,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Compare new texts with a model's validation texts: unknown words, outliers and labels."""
    from lamatext.input_drift import measure_drift
    from lamatext.runtime.predictor import Predictor
    from lamatext.views.terminal_drift import show_drift

    reading = options.read_options(
        text_column,
        max_record,
        max_bad_rows,
        format=format_ or ("lines" if data == "-" else None),
        encoding=encoding,
        separator=separator,
    )
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
