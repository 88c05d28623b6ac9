"""Log of reading a data file: assumptions made and bad rows skipped, with line numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lamatext.errors import DataError, plural

_MAX_LISTED = 12  # lines per fault in a message


@dataclass(slots=True)
class _Fault:
    """Number of bad rows with the same fault in a data file, and where the first of them are."""

    unit: str  # "line" or "row"
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, count: int, lines: Sequence[int]) -> None:
        self.count += count
        self.lines += lines[: _MAX_LISTED - len(self.lines)]

    def places(self) -> str:
        """Format the lines or rows, without separators of thousands."""
        more = self.count - len(self.lines)
        unit = self.unit if self.count == 1 else f"{self.unit}s"
        return f"{unit} {', '.join(map(str, self.lines))}{f' and {more} more' if more else ''}"


class ReadLog:
    """Log of how a data file was read, filled in by its reader.

    Args:
        name: the name of the source, for messages.
        max_bad_rows: the share of rows that may be skipped; None raises at the first bad row.
    """

    def __init__(self, name: str, max_bad_rows: float | None = None) -> None:
        self.name = name
        self.max_bad_rows = max_bad_rows
        self.format: str | None = None
        self.encoding = "utf-8"
        self.is_encoding_requested = False
        self.separator: str | None = None
        self.quote = '"'
        self.header = True
        self.notes: list[str] = []  # what was assumed, and why
        self.bad_rows = 0
        self.undecodable: set[int] = set()  # lines with bytes that are not in the encoding
        self.columns = ""  # of texts and labels, for errors about empty values in them
        self.sheet = ""  # which sheet of several was read, for errors about columns
        self.unit = "row"  # what ``line_of`` counts: "line" or "row"
        self.line_of: Callable[[int], int] | None = None  # of a row in the batch read last
        self._faults: dict[str, _Fault] = {}

    @property
    def is_strict(self) -> bool:
        """Return whether this log is strict: a bad row is an error, not skipped and logged."""
        return self.max_bad_rows is None

    def skip_row(self, line: int, fault: str, advice: str = "") -> None:
        """Log a skipped bad row, or raise DataError if bad rows may not be skipped.

        Args:
            line: where the row begins, as ``unit`` counts.
            fault: what is wrong with it, the same words for the same fault.
            advice: details and what to do, for the error message.
        """
        if self.is_strict:
            raise DataError(f"{self.place(line)}: {fault}{advice}")
        self.bad_rows += 1
        self._faults.setdefault(fault, _Fault(self.unit)).add(1, [line])

    def skip_undecodable(self, line: int) -> None:
        """Log a skipped row that has bytes that are not in the encoding."""
        self.skip_row(line, self._undecodable_fault)

    @property
    def _undecodable_fault(self) -> str:
        return f"bytes that are not {self.encoding.upper()}"

    def place(self, line: int) -> str:
        """Return the file name with a line or row number for a message, such as ``a.csv:3``."""
        return f"{self.name}:{line}" if self.unit == "line" else f"{self.name}: row {line}"

    def copy_layout(self, first: "ReadLog") -> None:
        """Copy the first shard's format and notes to the log of the whole source."""
        self.format, self.encoding, self.header = first.format, first.encoding, first.header
        self.separator, self.quote = first.separator, first.quote
        self.notes += first.notes

    def add_bad_rows(self, other: "ReadLog") -> None:
        """Add the bad rows logged for a shard to the log of the whole source."""
        self.bad_rows += other.bad_rows
        for name, fault in other._faults.items():
            own = self._faults.setdefault(f"{other.name}: {name}", _Fault(fault.unit))
            own.add(fault.count, fault.lines)

    def has_only(self, fault: str) -> bool:
        """Return whether all bad rows in the log have the given fault."""
        return set(self._faults) == {fault}

    def faults(self) -> str:
        """Return the faults of the bad rows in the log, each with its first lines."""
        return "; ".join(f"{name} ({fault.places()})" for name, fault in self._faults.items())

    def skipped_rows(self) -> list[str]:
        """Return a log message on the skipped rows, their faults and lines, or an empty list."""
        if not self.bad_rows:
            return []
        skipped = plural(
            self.bad_rows, "row that cannot be used was", "rows that cannot be used were"
        )
        return [f"{skipped} skipped: {self.faults()}"]

    def check_bad_rows(self, rows: int, separator: str | None = None) -> None:
        """Raise DataError if too many bad rows of the file were logged.

        The error names the separator if the label column seems to hold several labels per text.
        """
        share = self.bad_rows / max(rows, 1)
        if self.max_bad_rows is None or share <= self.max_bad_rows:
            return
        self._check_requested_encoding(rows)
        hint = ""
        if separator is not None:
            hint = (
                " The labels look like several per text: with "
                f"--label-separator '{separator}' an empty cell means that none applies."
            )
        if self.undecodable:
            hint += " If the file has another encoding, name it with --encoding."
        is_blank = any(fault in self._faults for fault in ("no text", "no label"))
        columns = f" {self.columns}." if is_blank and self.columns else ""
        needed = min(-(-self.bad_rows * 1000 // rows) / 10, 100)
        advice = "Correct these rows"
        if self.bad_rows < rows:
            advice += f", or skip them with --max-bad-rows {needed:g}%"
        raise DataError(
            f"{self.name}: {self.bad_rows:,} of {rows:,} rows cannot be used, more than the "
            f"allowed {100 * self.max_bad_rows:g} %: {self.faults()}.{columns} {advice}.{hint}"
        )

    def _check_requested_encoding(self, rows: int) -> None:
        """Raise DataError if most bad rows of the file are not in the requested encoding."""
        fault = self._faults.get(self._undecodable_fault)
        if fault is not None and self.is_encoding_requested and 2 * fault.count > self.bad_rows:
            encoding = self.encoding.upper()
            raise DataError(
                f"{self.name}: not {encoding}, although --encoding says so: {fault.count:,} of "
                f"{rows:,} rows have bytes that are invalid in {encoding}, the first in line "
                f"{fault.lines[0]}. Leave --encoding out to detect the encoding, or name another "
                "one."
            )
