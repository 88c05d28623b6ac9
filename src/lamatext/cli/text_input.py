"""Text input of ``predict``, ``explain`` and ``drift``, read like the model's training file."""

import glob
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lamatext.cli import output
from lamatext.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from lamatext.data.read_options import ReadOptions
    from lamatext.data.readers.table import Table


def check_is_no_text(source: str | None) -> None:
    """Raise ConfigError if the name of a command's input is a text, not that of a file."""
    from lamatext.data.readers.format_detection import FORMAT_OF_SUFFIX
    from lamatext.data.readers.input_files import decompressed_suffix

    if source is None or (source.isascii() and not any(map(str.isspace, source.strip()))):
        return
    is_file_name = decompressed_suffix(Path(source)) in FORMAT_OF_SUFFIX
    if not is_file_name and not glob.glob(source):  # noqa: PTH207 - the name may be too long
        text = source if len(source) <= 60 else f"{source[:57]}..."
        raise ConfigError(
            f"no file has the name {text!r}. Give a text as: --text {shlex.quote(text)}"
        )


@dataclass(frozen=True, slots=True)
class TextInput:
    """Text input of ``predict``, ``explain`` or ``drift``: a table that can be read only once."""

    table: "Table"
    columns: tuple[str, ...]
    batches: Iterator["pa.RecordBatch"]  # all columns

    @classmethod
    def open(
        cls, model: Path, source: str, reading: "ReadOptions", output_format: str | None = None
    ) -> "TextInput":
        """Open a command's text input with the same columns and CSV dialect as the training file.

        Columns that are copied to the output keep their types if the output format supports them.
        """
        from lamatext.data.sources import open_table
        from lamatext.saved.format import load_config, remembered_layout

        default_format = "lines" if source == "-" else None
        reading = replace(
            reading,
            format=reading.format or default_format,
            remembered=remembered_layout(load_config(model)),
        )
        table = open_table(source, reading)
        return cls(table, *table.text_batches(reading, output_format))

    def texts(self) -> Iterator[list[str]]:
        """Yield the texts of the input in batches, joining the values of several text columns."""
        from lamatext.data.readers.table import join_columns

        for batch in self.batches:
            names = batch.schema.names
            yield join_columns([batch.column(names.index(n)) for n in self.columns]).to_pylist()

    def show_reading(self, *, quiet: bool) -> None:
        """Print notes on how the text input was read (unless ``quiet``) and on skipped rows."""
        name, log = self.table.name, self.table.log
        if not quiet:
            is_chosen = len(self.table.columns) > 1
            chosen = [f"texts from {', '.join(map(repr, self.columns))}"] if is_chosen else []
            for number, note in enumerate([*chosen, *log.notes]):
                output.message(f"  {note}" if number else f"{name}: {note}")
        for skipped in log.skipped_rows():
            are = "It is" if log.bad_rows == 1 else "They are"
            output.message(f"lamatext: {name}: {skipped}. {are} not in the result.")
