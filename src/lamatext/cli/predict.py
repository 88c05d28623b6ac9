"""``lamatext predict``: label new texts, as a stream."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.errors import ConfigError
from lamatext.views.formatting import one_line, terminal_text

if TYPE_CHECKING:
    import pyarrow as pa

    from lamatext.runtime.predictor import Predictor

NAME = "predict"
EXAMPLE = "Example: lamatext predict runs/reviews new.csv --out labelled.csv"


def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    source: Annotated[
        str | None, typer.Argument(metavar="INPUT", help="A file, a folder, or - for stdin.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A text to predict instead of INPUT; can be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .tsv, .jsonl or .parquet file. [default: stdout]")
    ] = None,
    text_column: options.TextColumn = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The format of INPUT: csv, tsv, jsonl, parquet, fasttext or lines. [default: "
            "from the file name; for stdin lines, one text per line]",
        ),
    ] = None,
    max_record: options.MaxRecord = output.DEFAULT_MAX_RECORD,
    top_k: Annotated[int, typer.Option(min=1, help="Output the k most probable labels.")] = 1,
    proba: Annotated[
        bool, typer.Option("--proba", help="Output the probability of every label.")
    ] = False,
    safe_csv: Annotated[
        bool,
        typer.Option(
            "--safe-csv",
            help="Put a single quote before cells of CSV and TSV output that a spreadsheet would "
            "run as formulas: text that starts with = + - @, tab or CR.",
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Predict the labels of new texts, streaming the input so that memory use stays constant."""
    from lamatext.data.writers import open_writer, output_format
    from lamatext.runtime.predict_table import predict_batches
    from lamatext.runtime.predictor import Predictor

    if source is not None and text is not None:
        raise ConfigError("give either an INPUT (a file, or - for stdin) or --text, not both.")
    if source is None and text is None:
        raise ConfigError("nothing to predict. Give an INPUT (a file, or - for stdin) or --text.")
    if out is not None:
        output_format(out)
    predictor = Predictor.load(model)
    if text is not None and out is None:
        top = len(predictor.classes_) if proba else top_k
        _print_predictions(predictor, text, as_json=as_json, top=top)
        return
    column, batches = (
        _table_of(text) if text else _read(str(source), text_column, format_, max_record)
    )
    labelled = predict_batches(predictor, batches, column, top_k=top_k, proba=proba)
    if out is None and sys.stdout.isatty():
        labelled = map(_visible_batch, labelled)
    rows = 0
    kind = "jsonl" if as_json else "csv"
    with (
        output.progress(quiet=quiet or out is None) as progress,
        open_writer(out, kind, safe_csv=safe_csv) as write,
    ):
        progress.stage("predicting")
        for batch in labelled:
            write(batch)
            rows += len(batch)
            progress.advance(len(batch), f"{rows:,} texts")
    if out is not None and not quiet:
        output.message(f"Labels of {rows:,} texts written to {out}")
        output.next_steps(output.command("explain", model, "--text", "…"))


def _table_of(texts: list[str]) -> tuple[str, Iterator["pa.RecordBatch"]]:
    """Return the ``--text`` arguments of ``lamatext predict`` as a one-column Arrow table."""
    import pyarrow as pa

    from lamatext.data.tokenizer import encodable

    return "text", iter([pa.RecordBatch.from_pydict({"text": list(map(encodable, texts))})])


def _read(
    source: str, text_column: str | None, format_: str | None, max_record: int
) -> tuple[str, Iterator["pa.RecordBatch"]]:
    """Open the input of ``lamatext predict`` and return its text column name and record batches."""
    from lamatext.data.column_detection import choose_text_column
    from lamatext.data.sources import open_table

    format_ = format_ or ("lines" if source == "-" else None)
    table = open_table(source, format=format_, max_record=max_record * 1_000_000)
    return choose_text_column(table.columns, text_column, table.name), table.all_batches()


def _visible_batch(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Make control characters visible in predictions that are printed to a terminal."""
    import pyarrow as pa

    def visible(column: pa.Array) -> pa.Array:
        if not pa.types.is_string(column.type):
            return column
        values = (None if value is None else terminal_text(value) for value in column.to_pylist())
        return pa.array(values, pa.string())

    names = [one_line(name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays([visible(column) for column in batch.columns], names=names)


def _print_predictions(
    predictor: "Predictor", texts: list[str], *, as_json: bool, top: int
) -> None:
    classes = [str(label) for label in predictor.classes_.tolist()]
    for text, row in zip(texts, predictor.predict_proba(texts), strict=True):
        ranked = sorted(zip(classes, row.tolist(), strict=True), key=lambda pair: -pair[1])
        if as_json:
            label, probability = ranked[0]
            prediction = {"text": text, "label": label, "probability": round(probability, 6)}
            probabilities = {name: round(p, 6) for name, p in ranked}
            print(json.dumps({**prediction, "probabilities": probabilities}))
        else:
            shown = (f"{one_line(label)} {probability:.4f}" for label, probability in ranked[:top])
            print("  ".join(shown))
