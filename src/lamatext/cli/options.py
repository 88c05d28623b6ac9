"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, JSONL, Parquet or fastText file (.gz, .zst too), a folder with a folder "
        "for each label, - for stdin, hf:OWNER/NAME, or a name that `lamatext data` lists.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder written by lamatext train.")]
TextColumn = Annotated[str | None, typer.Option(help="The column of the texts. [default: by name]")]
LabelColumn = Annotated[
    str | None, typer.Option(help="The column of the labels. [default: by name]")
]
Format = Annotated[
    str | None,
    typer.Option(help="csv, tsv, jsonl, parquet, fasttext or lines. [default: by extension]"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs to read.")]
IsQuiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no hints.")]
