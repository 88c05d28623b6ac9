"""``lamatext predict``: labels for new texts, streamed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from lamatext.runtime.predictor import Predictor

NAME = "predict"
EXAMPLE = "Example: lamatext predict runs/reviews new.csv --out labelled.csv"


def run(  # noqa: PLR0913 - one argument for each option of the verb
    model: options.Model,
    source: Annotated[
        str | None, typer.Argument(metavar="INPUT", help="A file, a folder, or - for stdin.")
    ] = None,
    text: Annotated[list[str] | None, typer.Option("--text", help="A text given here.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .tsv, .jsonl or .parquet file. [default: stdout]")
    ] = None,
    text_column: options.TextColumn = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Of INPUT; stdin is one text a line unless this says."),
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="The k most probable labels.")] = 1,
    proba: Annotated[bool, typer.Option("--proba", help="The probability of every label.")] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Predict the labels of new texts; memory does not grow with the input."""
    from lamatext.data.writers import check_writable, open_writer
    from lamatext.runtime.predict_table import predict_batches
    from lamatext.runtime.predictor import Predictor

    if source is not None and text is not None:
        raise ConfigError("give either an INPUT (a file, or - for stdin) or --text, not both.")
    if source is None and text is None:
        raise ConfigError("nothing to predict. Give an INPUT (a file, or - for stdin) or --text.")
    if out is not None:
        check_writable(out)
    predictor = Predictor.load(model)
    if text is not None and out is None:
        most = len(predictor.classes_) if proba else top_k
        _print_texts(predictor, text, as_json=as_json, most=most)
        return
    column, batches = _given(text) if text else _read(str(source), text_column, format_)
    labelled = predict_batches(predictor, batches, column, top_k=top_k, proba=proba)
    rows = 0
    kind = "jsonl" if as_json and out is None else None
    with output.progress(quiet=quiet or out is None) as progress, open_writer(out, kind) as write:
        progress.stage("predicting")
        for batch in labelled:
            write(batch)
            rows += len(batch)
            progress.advance(len(batch), f"{rows:,} texts")
    if out is not None and not quiet:
        print(f"{rows:,} texts labelled in {out}", file=sys.stderr)
        output.next_steps(f'lamatext explain {model} --text "…"')


def _given(texts: list[str]) -> tuple[str, Iterator["pa.RecordBatch"]]:
    """Texts of the command line as a table of one column."""
    import pyarrow as pa

    from lamatext.data.tokenizer import encodable

    return "text", iter([pa.RecordBatch.from_pydict({"text": list(map(encodable, texts))})])


def _read(
    source: str, text_column: str | None, format_: str | None
) -> tuple[str, Iterator["pa.RecordBatch"]]:
    """The name of the text column, and the table batch by batch."""
    from lamatext.data.columns import choose_text
    from lamatext.data.sources import open_table

    table = open_table(source, format=format_ or ("lines" if source == "-" else None))
    return choose_text(table.columns, text_column, table.name), table.all_batches()


def _print_texts(predictor: "Predictor", texts: list[str], *, as_json: bool, most: int) -> None:
    classes = [str(label) for label in predictor.classes_.tolist()]
    for text, row in zip(texts, predictor.predict_proba(texts), strict=True):
        ranked = sorted(zip(classes, row.tolist(), strict=True), key=lambda pair: -pair[1])
        if as_json:
            label, probability = ranked[0]
            found = {"text": text, "label": label, "probability": round(probability, 6)}
            print(json.dumps({**found, "probabilities": {k: round(p, 6) for k, p in ranked}}))
        else:
            print("  ".join(f"{label} {probability:.4f}" for label, probability in ranked[:most]))
