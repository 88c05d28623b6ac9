"""Which column holds the texts and which the labels: as the user says, or by its name."""

import re
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
# A column that is about a text or a label without being it: review_id, text_length.
_ABOUT = frozenset(
    {"id", "ids", "date", "time", "count", "length", "lang", "language", "url", "author", "user"}
)


def choose_text(columns: Sequence[str], given: str | None, name: str) -> str:
    """The text column of ``columns``; messages call the source ``name``."""
    if given is not None:
        return _given(columns, given, name, "--text-column")
    found = _by_name(columns, TEXT_NAMES)
    if found is None and len(columns) == 2:
        label = _by_name(columns, LABEL_NAMES)
        found = next((column for column in columns if column != label), None) if label else None
    if found is None and len(columns) == 1:
        found = columns[0]
    if found is None:
        raise DataError(f"{name}: no text column found. {_advice(columns, '--text-column')}")
    return _unique(columns, found, name)


def choose_label(columns: Sequence[str], given: str | None, text: str, name: str) -> str:
    """The label column beside the column ``text``."""
    found = find_label(columns, given, text, name)
    if found is None and len(columns) == 1:
        raise DataError(
            f"{name}: no labels, its only column is {listed(columns)}. "
            "Expected a label for each text, such as a CSV with the columns text,label."
        )
    if found is None:
        raise DataError(f"{name}: no label column found. {_advice(columns, '--label-column')}")
    return found


def find_label(columns: Sequence[str], given: str | None, text: str, name: str) -> str | None:
    """The label column beside the column ``text``, or None where there seems to be none."""
    if given is not None:
        if given == text:
            raise DataError(
                f"{name}: the column '{text}' cannot hold both texts and labels. "
                "Name two columns with --text-column and --label-column."
            )
        return _given(columns, given, name, "--label-column")
    others = [column for column in columns if column != text]
    found = _by_name(others, LABEL_NAMES)
    if found is None and len(columns) == 2 and _by_name([text], TEXT_NAMES):
        found = others[0] if others else None
    return None if found is None else _unique(columns, found, name)


def _given(columns: Sequence[str], given: str, name: str, option: str) -> str:
    if given in columns:
        return _unique(columns, given, name)
    plain = {_plain(column): column for column in columns}
    near = get_close_matches(_plain(given), plain, n=1, cutoff=0.5)
    hint = f" Did you mean {option} {_shell(plain[near[0]])}?" if near else ""
    raise DataError(f"{name}: no column '{given}'. It has {listed(columns)}.{hint}")


def _unique(columns: Sequence[str], found: str, name: str) -> str:
    if columns.count(found) > 1:
        raise DataError(f"{name}: {columns.count(found)} columns are named '{found}'. Rename one.")
    return found


def _by_name(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The column with the most preferred name, or the only one that has such a word in its name."""
    plain = {_plain(column): column for column in reversed(columns)}
    for name in names:
        if name in plain:
            return plain[name]
    having = [column for column in columns if _has_word(column, names)]
    return having[0] if len(having) == 1 else None


def _has_word(column: str, names: Sequence[str]) -> bool:
    words = set(re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()))
    return not words & _ABOUT and any(name in words for name in names)


def _plain(column: str) -> str:
    return re.sub(r"[\W_]+", "", column).lower()


def _advice(columns: Sequence[str], option: str) -> str:
    return (
        f"Its columns are {listed(columns)}. Name the right one with {option}; "
        "if that is a row of data, the file lacks its header line (such as text,label)."
    )


def listed(columns: Sequence[str], most: int = 20) -> str:
    """The names as messages show them, long ones cut."""
    cut = [column if len(column) <= 40 else column[:37] + "..." for column in columns[:most]]
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(cut) + more


def _shell(column: str) -> str:
    return column if re.fullmatch(r"[\w.-]+", column) else f"'{column}'"
