"""Command-line arguments and options that several commands share."""

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamatext.errors import ConfigError, require

if TYPE_CHECKING:
    from lamatext.data.read_options import ReadOptions


def options_of(section: str) -> Callable[..., Any]:
    """Return a factory of command-line options that appear in the given section of the help."""
    return partial(typer.Option, rich_help_panel=section)


reading_option = options_of("reading the data")
setting_option = options_of("settings")
engine_option = options_of("engine")

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, JSONL, Parquet, Excel or fastText file (also .gz, .bz2, .zst), a folder "
        "with one folder per label or with Parquet or JSONL files, a pattern of files, - for "
        "stdin, hf:OWNER/NAME, or a name that `lamatext data` lists.",
    ),
]


def _model_folder(source: str) -> Path:
    from lamatext.saved.model_hub import PREFIX, local_folder

    return local_folder(source) if source.startswith(PREFIX) else Path(source)


Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A folder written by `lamatext train`, or hf:OWNER/NAME, a model on the Hub.",
        parser=_model_folder,
    ),
]
InputFormat = Annotated[  # in place of --format, for commands that read texts without labels
    str | None,
    reading_option(
        "--format",
        help="The format of the input: csv, tsv, jsonl, parquet, xlsx, fasttext or lines. "
        "[default: from the file name; for stdin lines, one text per line]",
    ),
]
DEFAULT_MAX_RECORD = 64  # MB
TestData = Annotated[
    str | None,
    reading_option(
        "--test", metavar="DATA", help="Test data. [default: DATA's test part, or a tenth of DATA]"
    ),
]
ValidationData = Annotated[
    str | None,
    reading_option(
        "--validation",
        metavar="DATA",
        help="Validation data, to calibrate the model. [default: a tenth of DATA]",
    ),
]
RecipeName = Annotated[
    str | None,
    setting_option(
        help="The settings to start from: default, paper, paper/MODEL or a TOML file. "
        "[default: default]"
    ),
]
SettingValues = Annotated[
    list[str] | None,
    setting_option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, for example model.heads=8; can be repeated.",
    ),
]
Seed = Annotated[
    int | None,
    setting_option(help="The seed of the split and the training. [default: from the recipe, 0]"),
]
Device = Annotated[str, setting_option(help="auto, cpu or cuda.")]
Engine = Annotated[
    str,
    engine_option(
        help="local: without Ray; ray: one worker per core of a Ray cluster, or of this machine."
    ),
]
Address = Annotated[
    str | None,
    engine_option(
        metavar="HOST:PORT",
        help="The Ray cluster, or auto for the one that runs on this machine. [default: start "
        "Ray on this machine]",
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put a single quote before cells of CSV and TSV output that a spreadsheet would "
        "run as formulas: text that starts with = + - @, tab or CR.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing output files.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
IsQuiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Do not show progress or suggested commands.")
]


def parse_share(value: str, option: str) -> float:
    """Parse the value of a command-line option that is a share, such as ``3%`` or ``0.03``."""
    try:
        share = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise ConfigError(f"{option} {value}: expected a share from 0 to 1, such as 0.03 or 3%.")
    return share


def read_options(  # noqa: PLR0913 - one parameter per command-line option
    *,
    text_column: Annotated[
        list[str] | None,
        reading_option(
            metavar="NAME",
            help="The column with the texts; repeat to join several. A value in nested JSON has a "
            "dotted path: ticket.body. [default: the model's, or detected]",
        ),
    ] = None,
    label_column: Annotated[
        list[str] | None,
        reading_option(
            metavar="NAME",
            help="The column with the labels; repeat it to name a 0/1 column for each label. "
            "[default: the model's, or detected]",
        ),
    ] = None,
    label_separator: Annotated[
        str | None,
        reading_option(
            help="What separates the labels of a text, if the label column holds several."
        ),
    ] = None,
    format_: Annotated[
        str | None,
        reading_option(
            "--format",
            help="The format of the data: csv, tsv, jsonl, parquet, xlsx, fasttext or lines; "
            "needed for stdin. [default: from the file name]",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        reading_option(
            help="The encoding of the file: utf-8, utf-16, cp1252, … [default: detected]"
        ),
    ] = None,
    separator: Annotated[
        str | None,
        reading_option(
            metavar="CHARACTER",
            help="The character that separates the fields of a CSV file, or the word tab. "
            "[default: detected]",
        ),
    ] = None,
    max_record: Annotated[
        int,
        reading_option(
            metavar="MB",
            min=1,
            max=1000,
            help="The longest line, CSV row or text file to read, in MB.",
        ),
    ] = DEFAULT_MAX_RECORD,
    max_bad_rows: Annotated[
        str,
        reading_option(
            metavar="SHARE",
            help="The share of rows that may be skipped because they are broken or, in labelled "
            "data, have no text or label, such as 3% or 0.03; more are an error.",
        ),
    ] = "1%",  # data.read_options.DEFAULT_MAX_BAD_ROWS
    group_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Keep all texts with the same value in this column, such as a customer or a "
            "thread, in one part when splitting.",
        ),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Test on the newest texts by this column of dates or times."
        ),
    ] = None,
    merge_labels: Annotated[
        bool,
        typer.Option(
            "--merge-labels", help="Treat labels that differ only in case or spaces as one label."
        ),
    ] = False,
) -> "ReadOptions":
    """Convert the command-line options for reading data to ``ReadOptions``.

    Each command offers a selection of these options, see ``reads``.
    """
    from lamatext.data.read_options import ReadOptions

    return ReadOptions(
        text_columns=tuple(text_column or ()),
        label_columns=tuple(label_column or ()),
        label_separator=label_separator,
        group_column=group_column,
        time_column=time_column,
        format=format_,
        encoding=encoding,
        separator=separator,
        max_record=max_record * 1_000_000,
        max_bad_rows=parse_share(max_bad_rows, "--max-bad-rows"),
        merge_labels=merge_labels,
    )


_READ = tuple(signature(read_options).parameters.values())
LABELLED, SPLIT, MERGE_LABELS = _READ[:-3], _READ[-3:], _READ[-1]
TEXTS = tuple(
    option.replace(annotation=InputFormat) if option.name == "format_" else option
    for option in LABELLED
    if not option.name.startswith("label_")
)


def reads(*selected: Parameter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the command-line options for reading data to a command.

    They replace the command's parameter ``reading``, which receives them as ``ReadOptions``.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        @wraps(run)
        def command(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in selected}
            run(**given, reading=read_options(**values))

        parameters = list(signature(run).parameters.values())
        place = [parameter.name for parameter in parameters].index("reading")
        parameters[place : place + 1] = selected
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # for Typer
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


def check_outputs(
    *outputs: Path | None,
    pages: Sequence[Path | None] = (),
    force: bool,
    inputs: Sequence[str | Path | None] = (),
    models: Sequence[str | Path | None] = (),
) -> None:
    """Check before a command's work that its output files can be written and do not exist yet.

    Args:
        outputs: the files; a FIFO or a device may exist.
        pages: the files that are HTML pages.
        force: whether existing files may be replaced. Files left over from a killed command are
            replaced in any case.
        inputs: the files and other sources that the command reads, which are never replaced.
        models: the folders of the models that the command reads, whose files are never replaced.

    Raises:
        ConfigError: an output file exists, is a folder, or is one of the inputs, or the name of a
            page does not end in .html.
        DataError: an output file cannot be written.
    """
    from lamatext.atomic_write import check_writable, is_special_file
    from lamatext.saved.format import FILES

    of_models = [Path(model) / name for model in models if model is not None for name in FILES]
    sources = [str(source) for source in inputs if source is not None]
    for path in filter(None, (*pages, *outputs)):
        if is_special_file(path):
            continue
        if path.exists():
            _check_replaceable(path, sources, of_models, force=force)
        if path in pages and path.suffix.lower() not in (".html", ".htm"):
            raise ConfigError(
                f"{path}: is to be a page, which browsers recognize by the end of its name. "
                f"Name it {path.name}.html."
            )
        check_writable(path)


def _check_replaceable(
    path: Path, sources: Sequence[str], of_models: Sequence[Path], *, force: bool
) -> None:
    """Raise ConfigError if an output file of a command exists and must not be replaced."""
    from lamatext.atomic_write import is_unfinished

    if path.is_dir():
        raise ConfigError(f"{path}: is a folder. Name a file in it.")
    if any(_is_input(path, source) for source in sources):
        raise ConfigError(f"{path}: is an input, which would be lost. Give another output file.")
    if any(file.is_file() and path.samefile(file) for file in of_models):
        raise ConfigError(
            f"{path}: is a file of a model, which would be lost. Give another output file."
        )
    if not force and not is_unfinished(path):
        raise ConfigError(f"{path}: already exists. Replace it with --force, or give another file.")


def _is_input(path: Path, source: str) -> bool:
    """Return whether the output file of a command is also one of its input files."""
    from lamatext.data.readers.folder_reader import data_files, glob_files, is_glob

    if is_glob(source):
        return any(path.samefile(file) for file in glob_files(source))
    if Path(source).is_dir():
        return any(path.samefile(file) for file in data_files(Path(source)))
    return Path(source).is_file() and path.samefile(source)


def check_engine(engine: str, address: str | None) -> None:
    """Validate the command-line options ``--engine`` and ``--address``."""
    if engine not in ("local", "ray"):
        raise ConfigError(f"--engine {engine}: unknown. Use local or ray.")
    if engine == "local" and address is not None:
        raise ConfigError("--address needs --engine ray.")
    if engine == "ray":
        require("ray", extra="ray", purpose="--engine ray")


def check_device(name: str) -> None:
    """Validate the command-line option ``--device`` and check that torch is installed."""
    require("torch", extra="train", purpose="training")
    from lamatext.training.trainer import pick_device

    pick_device(name)
