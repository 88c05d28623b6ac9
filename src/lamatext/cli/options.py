"""Command-line arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, JSONL, Parquet or fastText file (also .gz, .zst), a folder with one "
        "folder per label, - for stdin, hf:OWNER/NAME, or a name that `lamatext data` lists.",
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A folder written by `lamatext train`.")
]
TextColumn = Annotated[
    str | None, typer.Option(help="The column with the texts. [default: detected by name]")
]
LabelColumn = Annotated[
    list[str] | None,
    typer.Option(
        help="The column with the labels; repeat it to name a 0/1 column for each label. "
        "[default: detected by name]"
    ),
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(help="What separates the labels of a text, if the label column holds several."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="The format of DATA: csv, tsv, jsonl, parquet, fasttext or lines; needed for stdin. "
        "[default: from the file name]",
    ),
]
MaxRecord = Annotated[
    int,
    typer.Option(
        metavar="MB", min=1, max=1000, help="The longest line, CSV row or text file to read, in MB."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
IsQuiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Do not show progress or suggested commands.")
]
