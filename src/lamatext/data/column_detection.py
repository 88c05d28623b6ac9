"""Column detection: finding the text and label columns of a table by their names and values."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.label_columns import parse_label_lists
from lamatext.errors import ColumnChoiceError, DataError, plural

# In order of preference; compared without case, spaces and punctuation.
TEXT_NAMES = (
    "text", "texts", "review", "reviewtext", "reviewbody", "sentence", "content", "body",
    "message", "document", "comment", "tweet", "post", "article", "utterance",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "class", "category", "sentiment", "stars", "rating", "target", "topic",
    "polarity", "intent", "genre", "emotion", "airlinesentiment", "categories",
)  # fmt: skip
# These names decide only between columns whose contents fit.
WEAK_TEXT_NAMES = (
    "query", "question", "description", "summary", "title", "headline", "subject", "input",
)  # fmt: skip
WEAK_LABEL_NAMES = ("tag", "tags", "score", "star", "type", "output", "y")
# Words in the name of a column that describes a text or a label: review_id, text_length.
_METADATA_WORDS = frozenset(
    {
        "id", "ids", "date", "time", "count", "length", "lang", "language", "url", "author",
        "user", "country", "region", "city", "source", "version", "platform", "device", "channel",
        "split", "fold", "gender", "age", "year", "month", "day", "timestamp", "created", "locale",
    }
)  # fmt: skip

_NUMBER = r"^\s*[-+]?\d+([.,]\d+)*\s*%?\s*$"
_FRACTION = r"[.,]\d"
_DATE = r"^\s*\d{1,4}[-./]\d{1,2}[-./]\d{1,4}"
_ADDRESS = r"^\s*(https?://|www\.|[^@\s]+@[^@\s]+\.[^@\s]+$|/|[A-Za-z]:\\)"
_CODE = r"^\s*\S*\d\S*\s*$"
# Two words, or a run of characters of a script that is written without spaces.
_SEVERAL_WORDS = r"\S\s+\S|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{4}"
_LABEL_LENGTH = 60  # characters; values with a longer mean are not labels
_CLEAR_LENGTH = 1.5  # ratio of the weights of two text columns that makes the choice clear
_CLEAR_VALUES = 8  # ratio of the numbers of values of two label columns that makes it clear
_MAX_PROFILES = 1000  # columns
_MAX_LISTED = 20  # columns in a message
_MOST = 0.9
LABEL_SEPARATORS = ",;|"


@dataclass(frozen=True, slots=True)
class DetectedColumns:
    """Detected text and label columns, with the reasons for choosing them."""

    text_columns: tuple[str, ...]
    label_columns: tuple[str, ...]
    reasons: tuple[str, ...]


# 1 · By name


def is_known_name(column: str) -> bool:
    """Return whether a column name is typical of text or label columns."""
    names = (*TEXT_NAMES, *LABEL_NAMES, *WEAK_TEXT_NAMES, *WEAK_LABEL_NAMES, "id")
    return _plain_name(column) in names


def with_full_names(columns: Sequence[str], options: ReadOptions) -> ReadOptions:
    """Replace requested columns by those of the table that differ only in spaces at their ends."""

    def full_name(requested: str) -> str:
        same = [column for column in columns if column.strip() == requested.strip()]
        return same[0] if requested not in columns and len(same) == 1 else requested

    group, time = options.group_column, options.time_column
    return replace(
        options,
        text_columns=tuple(map(full_name, options.text_columns)),
        label_columns=tuple(map(full_name, options.label_columns)),
        group_column=group and full_name(group),
        time_column=time and full_name(time),
    )


def choose_by_name(
    columns: Sequence[str], options: ReadOptions, name: str
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Choose the text and label columns by name, or return None for those that remain undecided.

    A column is chosen if the user requested it, else if the model was trained on a column of that
    name, else if its name is typical of text or label columns.

    Args:
        columns: the names of all columns.
        options: the columns that the user requested, and those that a model remembers.
        name: the name of the source, for messages.
    """
    for extra, option in zip(_extra(options), ("--group-column", "--time-column"), strict=True):
        if extra is not None:
            check_column(columns, extra, name, option)
    texts = choose_text_by_name(columns, options, name)
    for label in options.label_columns:
        check_column(columns, label, name, "--label-column")
        if label in (texts or ()):
            raise DataError(
                f"{name}: the column '{label}' cannot hold both texts and labels. "
                "Name two columns with --text-column and --label-column."
            )
    if options.label_columns:
        return texts, options.label_columns
    remembered = options.remembered
    if remembered is not None and set(remembered.label_columns) <= set(columns):
        return texts, tuple(_check_unique(columns, c, name) for c in remembered.label_columns)
    others = [c for c in columns if c not in (texts or ()) and c not in _extra(options)]
    detected = _detect_by_name(others, LABEL_NAMES)
    return texts, None if detected is None else (_check_unique(columns, detected, name),)


def choose_text_by_name(
    columns: Sequence[str], options: ReadOptions, name: str
) -> tuple[str, ...] | None:
    """Choose the text columns like ``choose_by_name``, or return None if undecided."""
    if options.text_columns:
        for column in options.text_columns:
            check_column(columns, column, name, "--text-column")
        return options.text_columns
    remembered = options.remembered
    if remembered is not None and set(remembered.text_columns) <= set(columns):
        return tuple(_check_unique(columns, c, name) for c in remembered.text_columns)
    others = [c for c in columns if c not in options.label_columns and c not in _extra(options)]
    detected = (
        others[0] if len(columns) == len(others) == 1 else _detect_by_name(others, TEXT_NAMES)
    )
    if detected is not None:
        return (_check_unique(columns, detected, name),)
    if remembered is not None and remembered.text_columns:
        missing = next(c for c in remembered.text_columns if c not in columns)
        raise DataError(
            f"{name}: no column '{missing}', from which the texts were read in training. It has "
            f"{_listing(columns)}. Name the column with the texts with --text-column."
        )
    return None


def explain_choice(
    columns: Sequence[str],
    options: ReadOptions,
    texts: tuple[str, ...] | None,
    labels: tuple[str, ...] | None = None,
) -> list[str]:
    """Return notes for the user on text and label columns that were chosen by name or are missing.

    Args:
        columns: the names of all columns.
        options: the columns that the user requested, and those that a model remembers.
        texts: the text columns, or None if their contents decide.
        labels: the label columns, or None if their contents decide or labels are not read.
    """
    known = options.remembered
    notes, reasons = list[str](), dict[str, list[tuple[str, str]]]()
    for content, option, chosen, requested, trained in (
        ("texts", "--text-column", texts, options.text_columns, known and known.text_columns),
        ("labels", "--label-column", labels, options.label_columns, known and known.label_columns),
    ):
        if requested:
            continue
        if chosen is not None:
            by = "as in training" if chosen == trained else "by name"
            reasons.setdefault(by, []).append((content, option))
        missing = [column for column in trained or () if column not in columns]
        if missing and (content == "texts" or chosen is not None):
            notes.append(
                f"no column {missing[0]!r}, from which the {content} were read in training"
            )
    return [*(_reason(by, kinds) for by, kinds in reasons.items()), *notes]


def _reason(by: str, kinds: Sequence[tuple[str, str]]) -> str:
    options = " and ".join(option for _, option in kinds)
    contents, name = (kinds[0][0], "names") if len(kinds) == 1 else ("columns", "name")
    others = f"; {options} {name} others" if by == "by name" else ""
    return f"{contents} chosen {by}{others}"


def check_column(columns: Sequence[str], requested: str, name: str, option: str) -> None:
    """Raise DataError if a requested column is missing or its name is not unique."""
    if requested in columns:
        _check_unique(columns, requested, name)
        return
    by_plain_name = {_plain_name(column): column for column in columns}
    near = get_close_matches(_plain_name(requested), by_plain_name, n=1, cutoff=0.5)
    hint = f" Did you mean {option} {shlex.quote(by_plain_name[near[0]])}?" if near else ""
    raise DataError(f"{name}: no column '{requested}'. It has {_listing(columns)}.{hint}")


def _extra(options: ReadOptions) -> tuple[str | None, ...]:
    return options.group_column, options.time_column


def _check_unique(columns: Sequence[str], column: str, name: str) -> str:
    if columns.count(column) > 1:
        raise DataError(
            f"{name}: {columns.count(column)} columns are named '{column}'. Rename one."
        )
    return column


def _detect_by_name(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Detect a text or label column whose name equals or contains one of the typical names.

    An equal name takes precedence; a name that contains one counts only if no other column does.
    """
    by_plain_name = {_plain_name(column): column for column in reversed(columns)}
    for name in names:
        if name in by_plain_name:
            return by_plain_name[name]
    candidates = [column for column in columns if _words(column) & set(names)]
    candidates = [column for column in candidates if not _words(column) & _METADATA_WORDS]
    return candidates[0] if len(candidates) == 1 else None


def _words(column: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()))


def _plain_name(column: str) -> str:
    return re.sub(r"[\W_]+", "", column).lower()


# 2 · By content


@dataclass(frozen=True, slots=True)
class _Profile:
    """Statistics of a column's values that distinguish text columns from label columns."""

    name: str
    values: int  # that are not empty
    distinct: int
    repeated: int  # values that occur at least twice, counted with repetition
    length: float  # mean number of characters
    is_number: bool
    is_fraction: bool
    is_date: bool
    is_address: bool
    is_code: bool  # most values are one word with digits, such as T-00017
    is_prose: bool  # most values have several words
    is_list: bool  # each value is a JSON list, whose items are counted
    separator: str | None  # of several labels in one value

    @property
    def varied(self) -> float:
        return self.distinct / max(self.values, 1)


def detect_by_content(
    rows: pa.Table,
    texts: tuple[str, ...] | None,
    labels: tuple[str, ...] | None,
    name: str,
    exclude: Sequence[str] = (),
) -> DetectedColumns:
    """Detect the text and label columns of a table by their values.

    The text column has long, varied values; the label column has few, repeated ones.

    Args:
        rows: all columns, as strings.
        texts: the text columns, if they are known.
        labels: the label columns, if they are known.
        name: the name of the source, for messages.
        exclude: columns with another use.

    Raises:
        ColumnChoiceError: several columns fit about equally well.
        DataError: no column fits.
    """
    names = rows.schema.names
    chosen = {*(texts or ()), *(labels or ()), *exclude}
    profiles = _profiles(rows, name, chosen)
    reasons = []
    if texts is None:
        text = _detect_text(profiles, names, name)
        texts = (_check_unique(names, text.name, name),)
        profiles = [profile for profile in profiles if profile is not text]
        reasons.append(_text_reason(text))
    if labels is None:
        best, others = _detect_label(profiles, names, name, len(rows))
        labels = (_check_unique(names, best.name, name),)
        reasons.append(_label_reason(best, others))
    return DetectedColumns(texts, labels, tuple(reasons))


def _label_reason(best: _Profile, others: Sequence[_Profile]) -> str:
    """Return a note on why the label column was detected, naming other possible columns."""
    reason = (
        f"labels: column '{best.name}', whose values are few and repeated "
        f"({plural(best.distinct, 'different value')} in "
        f"{plural(best.values, 'list item' if best.is_list else 'row')})"
    )
    if not others:
        return reason
    options = " or ".join(f"--label-column {shlex.quote(other.name)}" for other in others)
    return f"{reason}, by its name; {_candidates(others)} would fit, too ({options})"


def detect_text_by_content(rows: pa.Table, name: str) -> DetectedColumns:
    """Detect the text column of an unlabelled table by its values."""
    names = rows.schema.names
    text = _detect_text(_profiles(rows, name, exclude=()), names, name)
    return DetectedColumns((_check_unique(names, text.name, name),), (), (_text_reason(text),))


def _text_reason(text: _Profile) -> str:
    return (
        f"texts: column '{text.name}', whose values are the longest and most varied "
        f"({text.length:,.0f} characters on average, "
        f"{plural(text.distinct, 'different value')} in {plural(text.values, 'row')})"
    )


def _profiles(rows: pa.Table, name: str, exclude: Collection[str]) -> list[_Profile]:
    names = rows.schema.names
    if len(names) > _MAX_PROFILES:
        raise DataError(
            f"{name}: {len(names):,} columns, too many to detect which have the texts and labels. "
            "Name them with --text-column and --label-column."
        )
    return [_profile(rows.column(i), c) for i, c in enumerate(names) if c not in exclude]


def _profile(column: pa.ChunkedArray, name: str) -> _Profile:
    lists = parse_label_lists(column)
    if lists is not None:
        items = [item for values in lists for item in values or ()]
        column = pa.chunked_array([pa.array(items, pa.string())])
    trimmed = pc.utf8_trim_whitespace(pc.fill_null(column, ""))
    values = trimmed.filter(pc.not_equal(trimmed, ""))
    counts = pc.value_counts(values)
    frequencies = counts.field("counts")
    distinct = counts.field("values")

    def most(pattern: str, share: float = _MOST) -> bool:
        matches = pc.sum(pc.match_substring_regex(distinct, pattern)).as_py() or 0
        return len(distinct) > 0 and matches >= share * len(distinct)

    is_number = most(_NUMBER)
    return _Profile(
        name=name,
        values=len(values),
        distinct=len(distinct),
        repeated=pc.sum(frequencies.filter(pc.greater(frequencies, 1))).as_py() or 0,
        length=pc.mean(pc.utf8_length(values)).as_py() or 0.0,
        is_number=is_number,
        is_fraction=is_number and most(_FRACTION, 0.2),
        is_date=most(_DATE),
        is_address=most(_ADDRESS),
        is_code=most(_CODE),
        is_prose=most(_SEVERAL_WORDS, 0.5),
        is_list=lists is not None,
        separator=label_separator(values),
    )


def label_separator(labels: pa.ChunkedArray) -> str | None:
    """Detect the separator between several labels in a cell of a label column, or return None.

    Splitting the cells at a separator yields short labels that recur in other cells.
    """
    distinct = pc.unique(labels).to_pylist()
    for separator in LABEL_SEPARATORS:
        several = [value for value in distinct if separator in value]
        if len(several) < max(2, len(distinct) // 5):
            continue
        parts = [{part.strip() for part in value.split(separator)} for value in distinct]
        labels_found = set().union(*parts)
        in_several = [part for value in parts if len(value) > 1 for part in value]
        counts = Counter(part for value in parts for part in value)
        is_short = sum(map(len, labels_found)) <= _LABEL_LENGTH / 2 * len(labels_found)
        # A label of a combination occurs in another value, too: all of them, or on average.
        occur_again = all(counts[part] > 1 for part in in_several)
        on_average = len(in_several) >= 2 * len(set(in_several))
        if is_short and "" not in labels_found and (occur_again or on_average):
            return separator
    return None


def _detect_text(profiles: Sequence[_Profile], names: Sequence[str], name: str) -> _Profile:
    profiles = [p for p in profiles if not p.is_list]
    fitting = [p for p in profiles if p.is_prose and not (p.is_date or p.is_number)]
    fitting = fitting or [
        p
        for p in profiles
        if not (p.is_number or p.is_date or p.is_address)
        and not (p.is_code and len(names) > 2)  # of two columns, the other one has the labels
        and p.values
        and p.varied > 0.5
    ]
    fitting = [p for p in fitting if p.varied > 0.1 or p.length > _LABEL_LENGTH] or fitting
    ranked = sorted(fitting, key=lambda p: -p.length * p.varied * p.values)
    if not ranked:
        raise DataError(f"{name}: no text column found. {_advice(names, '--text-column')}")
    best, *others = ranked
    close = [p for p in others if _text_weight(p) * _CLEAR_LENGTH > _text_weight(best)]
    if close:
        by_name = _detect_by_name([p.name for p in (best, *close)], WEAK_TEXT_NAMES)
        if by_name is not None:
            return next(p for p in (best, *close) if p.name == by_name)
        raise _close_call(name, "texts", "--text-column", [best, *close])
    return best


def _text_weight(profile: _Profile) -> float:
    return profile.length * profile.varied * profile.values


def _detect_label(
    profiles: Sequence[_Profile], names: Sequence[str], name: str, rows: int
) -> tuple[_Profile, list[_Profile]]:
    """Detect the label column; if it was chosen by its name, also return the other candidates."""
    fitting = [p for p in profiles if _fits_labels(p, rows)]
    by_name = _detect_by_name([p.name for p in fitting], WEAK_LABEL_NAMES)
    plain = [p for p in fitting if not _words(p.name) & _METADATA_WORDS]
    if by_name is not None:
        chosen = next(p for p in fitting if p.name == by_name)
        return chosen, [p for p in plain if p is not chosen]
    ranked = sorted(plain or fitting, key=lambda p: p.distinct)
    if not ranked:
        if len(names) == 1:
            raise DataError(
                f"{name}: no labels, its only column is {_listing(names)}. "
                "Expected a label for each text, such as a CSV with the columns text,label."
            )
        against = _reasons_against_labels(profiles, rows)
        advice = _advice(names, "--label-column")
        raise DataError(f"{name}: no label column found{against}. {advice}")
    best, *others = ranked
    close = [p for p in others if p.distinct <= _CLEAR_VALUES * best.distinct]
    if close:
        raise _close_call(name, "labels", "--label-column", [best, *close])
    return best, []


def _fits_labels(profile: _Profile, rows: int) -> bool:
    """Return whether the values of a column look like labels (few, short and repeated)."""
    return _fault_as_labels(profile, rows) is None


def _fault_as_labels(profile: _Profile, rows: int) -> str | None:
    """Return why the values of a column do not look like labels, or None if they do."""
    if 2 * profile.values < rows and not profile.is_list:
        return f"has {plural(profile.values, 'value')} in {plural(rows, 'row')}"
    if profile.distinct < 2:
        return "has only one value"
    if profile.length > _LABEL_LENGTH:
        return f"has values of {profile.length:.0f} characters on average"
    kinds = {
        "dates": profile.is_date,
        "fractions": profile.is_fraction,
        "addresses": profile.is_address,
    }
    if any(kinds.values()):
        return f"holds {next(kind for kind, holds in kinds.items() if holds)}"
    is_varied = 2 * profile.distinct > profile.values or 10 * profile.repeated < 8 * profile.values
    if is_varied and profile.separator is None:
        return f"has {profile.distinct:,} different values in {plural(profile.values, 'row')}"
    return None


def _reasons_against_labels(profiles: Sequence[_Profile], rows: int) -> str:
    """Return why up to three columns hold no labels, as part of an error."""
    reasons = [f"{p.name[:40]!r} {_fault_as_labels(p, rows)}" for p in profiles[:3]]
    return f": {', '.join(reasons)}" if reasons else ""


def _close_call(
    name: str, content: str, option: str, candidates: Sequence[_Profile]
) -> ColumnChoiceError:
    listed = _candidates(candidates)
    choices = [[option, p.name] for p in candidates]
    more = "; repeat the option to join several." if content == "texts" else "."
    if content == "labels" and all(p.is_number and p.distinct == 2 for p in candidates):
        more = "; repeat the option for columns of 0 and 1 if a text may have several labels."
        choices.insert(0, [part for choice in choices for part in choice])
    return ColumnChoiceError(
        f"{name}: several columns could hold the {content}: {listed}. Choose one with {option}"
        f"{more}",
        choices,
    )


def _candidates(candidates: Sequence[_Profile]) -> str:
    return ", ".join(
        f"{_short(p.name)}: {plural(p.distinct, 'value')}{' in lists' if p.is_list else ''}"
        for p in candidates
    )


def _advice(columns: Sequence[str], option: str) -> str:
    return (
        f"Its columns are {_listing(columns)}. Name the right one with {option}; "
        "if these are values rather than names, the file lacks a header line (such as text,label)."
    )


def _listing(columns: Sequence[str]) -> str:
    short = [_short(column) for column in columns[:_MAX_LISTED]]
    more = f" and {len(columns) - _MAX_LISTED} more" if len(columns) > _MAX_LISTED else ""
    return ", ".join(short) + more


def _short(column: str) -> str:
    return listed_column(column if len(column) <= 40 else column[:37] + "...")


def listed_column(column: str) -> str:
    """Format a column name for a list, with quotes if it begins or ends with a space."""
    return column if column == column.strip() else repr(column)
