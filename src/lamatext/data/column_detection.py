"""Column detection: which column holds the texts and which the labels."""

import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches

from lamatext.errors import DataError

# In order of preference; compared without case, spaces and punctuation.
TEXT_NAMES = (
    "text", "texts", "review", "reviewtext", "reviewbody", "sentence", "content", "body",
    "message", "document", "comment", "tweet", "post", "article", "utterance", "query",
    "question", "description", "summary", "title", "headline", "subject", "input",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "class", "category", "sentiment", "stars", "rating", "target", "topic",
    "polarity", "intent", "genre", "emotion", "tag", "score", "star", "airlinesentiment",
    "categories", "type", "output", "y",
)  # fmt: skip
# Words in the name of a column that describes a text or a label: review_id, text_length.
_METADATA_WORDS = frozenset(
    {"id", "ids", "date", "time", "count", "length", "lang", "language", "url", "author", "user"}
)


def choose_text_column(columns: Sequence[str], requested: str | None, name: str) -> str:
    """Return the text column that the user requested, or detect one by its name.

    Args:
        columns: the names of all columns.
        requested: the column that the user named, if any.
        name: the name of the source, for messages.
    """
    if requested is not None:
        return _requested_column(columns, requested, name, "--text-column")
    detected = _detect_by_name(columns, TEXT_NAMES)
    if detected is None and len(columns) == 2:
        label = _detect_by_name(columns, LABEL_NAMES)
        detected = next((column for column in columns if column != label), None) if label else None
    if detected is None and len(columns) == 1:
        detected = columns[0]
    if detected is None:
        raise DataError(f"{name}: no text column found. {_advice(columns, '--text-column')}")
    return _check_unique(columns, detected, name)


def choose_label_column(
    columns: Sequence[str], requested: str | None, text_column: str, name: str
) -> str:
    """Return the label column that the user requested, or detect one by its name.

    Raises:
        DataError: no column fits.
    """
    if requested is not None:
        if requested == text_column:
            raise DataError(
                f"{name}: the column '{text_column}' cannot hold both texts and labels. "
                "Name two columns with --text-column and --label-column."
            )
        return _requested_column(columns, requested, name, "--label-column")
    others = [column for column in columns if column != text_column]
    detected = _detect_by_name(others, LABEL_NAMES)
    if detected is None and len(columns) == 2 and _detect_by_name([text_column], TEXT_NAMES):
        detected = others[0] if others else None
    if detected is None and len(columns) == 1:
        raise DataError(
            f"{name}: no labels, its only column is {_listing(columns)}. "
            "Expected a label for each text, such as a CSV with the columns text,label."
        )
    if detected is None:
        raise DataError(f"{name}: no label column found. {_advice(columns, '--label-column')}")
    return _check_unique(columns, detected, name)


def choose_label_columns(
    columns: Sequence[str], requested: str | Sequence[str] | None, text_column: str, name: str
) -> tuple[str, ...]:
    """Return the label columns that the user requested, or detect one by its name.

    More than one column are 0/1 columns, one for each label.
    """
    names: list[str | None] = [requested] if isinstance(requested, str) else [*(requested or ())]
    return tuple(
        choose_label_column(columns, label, text_column, name)
        for label in dict.fromkeys(names or [None])
    )


def _requested_column(columns: Sequence[str], requested: str, name: str, option: str) -> str:
    if requested in columns:
        return _check_unique(columns, requested, name)
    by_plain_name = {_plain_name(column): column for column in columns}
    near = get_close_matches(_plain_name(requested), by_plain_name, n=1, cutoff=0.5)
    hint = f" Did you mean {option} {shlex.quote(by_plain_name[near[0]])}?" if near else ""
    raise DataError(f"{name}: no column '{requested}'. It has {_listing(columns)}.{hint}")


def _check_unique(columns: Sequence[str], column: str, name: str) -> str:
    if columns.count(column) > 1:
        raise DataError(
            f"{name}: {columns.count(column)} columns are named '{column}'. Rename one."
        )
    return column


def _detect_by_name(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Detect a column whose name equals or contains one of the preferred names.

    An equal name takes precedence; a name that contains one counts only if no other column does.
    """
    by_plain_name = {_plain_name(column): column for column in reversed(columns)}
    for name in names:
        if name in by_plain_name:
            return by_plain_name[name]
    candidates = [column for column in columns if _contains_word(column, names)]
    return candidates[0] if len(candidates) == 1 else None


def _contains_word(column: str, names: Sequence[str]) -> bool:
    words = set(re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()))
    return not words & _METADATA_WORDS and any(name in words for name in names)


def _plain_name(column: str) -> str:
    return re.sub(r"[\W_]+", "", column).lower()


def _advice(columns: Sequence[str], option: str) -> str:
    return (
        f"Its columns are {_listing(columns)}. Name the right one with {option}; "
        "if that is a row of data, the file lacks its header line (such as text,label)."
    )


def _listing(columns: Sequence[str], limit: int = 20) -> str:
    short = [column if len(column) <= 40 else column[:37] + "..." for column in columns[:limit]]
    more = f" and {len(columns) - limit} more" if len(columns) > limit else ""
    return ", ".join(short) + more
