"""Text encodings of input files: detection by content, and conversion of lines to UTF-8."""

import codecs
from collections.abc import Iterator
from difflib import get_close_matches

from lamatext.data.readers.read_log import ReadLog
from lamatext.errors import DataError

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_CANDIDATES = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "cp932",
    "euc_jp", "gb18030", "big5", "cp949",
)  # fmt: skip
_SAMPLE = 1 << 15  # bytes of lines that are not ASCII, to detect their encoding
_MAX_UNDECODABLE = 100_000  # lines
_EVIDENCE = 4  # non-ASCII bytes; fewer are no evidence against the expected encoding
_NEARLY_AS_GOOD = 0.05  # difference between the shares of odd characters that two encodings give
_SHOWN_NAMES = {"cp1252": "cp1252 (Windows, Western Europe)"}


def check_encoding(name: str) -> str:
    """Return the standard name of a text encoding; raise DataError if Python does not know it."""
    try:
        codec = codecs.lookup(name)
        codec.decode(b"")
        is_text = getattr(codec, "_is_text_encoding", True)
    except (LookupError, UnicodeError, ValueError):
        is_text = False
    if not is_text:
        known = ("utf-8", "utf-16", "utf-32", "latin-1", *_CANDIDATES)
        near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else " Try utf-8, utf-16, cp1252 or gb18030."
        raise DataError(f"--encoding {name}: not a known text encoding.{hint}")
    return "utf-8" if codec.name == "utf-8-sig" else codec.name


def wide_encoding(head: bytes, requested: str | None) -> tuple[str | None, int, str]:
    """Detect a text encoding that is not a superset of ASCII, such as UTF-16, from the first bytes.

    Args:
        head: the first bytes.
        requested: the encoding that the user requested, if any.

    Returns:
        The encoding, or None for an extension of ASCII; the length of the byte order mark; and why.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark) and (requested or encoding)[:6] == encoding[:6]:
            wide = None if encoding == "utf-8" else encoding
            return wide, len(mark), "its first bytes are a byte order mark"
    if requested is not None:
        return (None if _extends_ascii(requested) else requested), 0, "as requested"
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) > len(head) // 8 and min(even, odd) < max(even, odd) // 4:
        return ("utf-16-le" if odd > even else "utf-16-be"), 0, "every second byte is NUL"
    return None, 0, ""


def _extends_ascii(encoding: str) -> bool:
    sample = 'a,;\t|"\r\n'
    return sample.encode(encoding, "replace") == sample.encode()


def decode_stream(chunks: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Convert a byte stream in an encoding such as UTF-16 to UTF-8; raise DataError if invalid."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")
    except UnicodeError as error:
        raise DataError(
            f"{name}: not {encoding} text ({error}). Name its encoding with --encoding."
        ) from None


class LineDecoder:
    """Decoder of lines in a text encoding that is a superset of ASCII, such as cp1252.

    The encoding is detected at the first line that is not ASCII, so that a stream is read once.
    Lines with bytes that are not in the encoding are logged as undecodable.

    Args:
        requested: the encoding that the user requested, if any.
        expected: the encoding to try before detecting one, if the bytes are not UTF-8.
        log: receives the encoding and the undecodable lines.
    """

    def __init__(self, requested: str | None, expected: str | None, log: ReadLog) -> None:
        self._encoding = requested
        self._expected = expected
        self._log = log

    def decode(self, data: bytes, first_line: int) -> bytes:
        """Convert lines from the requested or detected text encoding to UTF-8."""
        if data.isascii():
            return data
        if self._encoding is None:
            self._encoding = self._detect(data)
        try:
            text = data.decode(self._encoding)
        except UnicodeDecodeError as error:
            self._log_undecodable(data, first_line, error)
            return data.decode(self._encoding, "replace").encode()
        return data if self._encoding == "utf-8" else text.encode("utf-8", "replace")

    def _detect(self, data: bytes) -> str:
        lines = [line for line in data.splitlines() if not line.isascii()]
        valid = sum(_is_valid(line, "utf-8") for line in lines)
        expected = self._expected or "utf-8"
        if 2 * valid >= len(lines):
            if expected != "utf-8" and not any("UTF-8" in note for note in self._log.notes):
                self._log.notes.append(f"read as UTF-8 text, unlike the training file ({expected})")
            return "utf-8"
        sample = b"\n".join(lines)[:_SAMPLE]
        sample = sample[: sample.rfind(b"\n")] if len(sample) == _SAMPLE else sample
        encoding = detect_encoding(sample, expected)
        if expected == "utf-8":
            reason = "detected, as it is not UTF-8"
        elif encoding == expected:
            reason = "as the training file"
        else:
            reason = f"detected; it does not fit {expected}, the encoding of the training file"
        self._log.encoding = encoding
        shown = _SHOWN_NAMES.get(encoding, encoding)
        self._log.notes.append(f"read as {shown} text: {reason}; --encoding names another one")
        return encoding

    def _log_undecodable(self, data: bytes, first_line: int, error: UnicodeDecodeError) -> None:
        assert self._encoding is not None
        for number, line in enumerate(data.split(b"\n"), start=first_line):
            if not _is_valid(line, self._encoding):
                if self._log.is_strict or len(self._log.undecodable) >= _MAX_UNDECODABLE:
                    byte = error.object[error.start]
                    raise DataError(
                        f"{self._log.name}:{number}: not {self._encoding.upper()} (byte "
                        f"0x{byte:02x}). Correct the line, or name the file's encoding with "
                        "--encoding."
                    )
                self._log.undecodable.add(number)


def detect_encoding(sample: bytes, expected: str = "utf-8") -> str:
    """Detect the text encoding of lines that are not UTF-8, preferring cp1252 if several fit.

    The expected encoding is returned if it reads the sample about as well as any other. Bytes that
    cp1252 does not define are read as latin-1.
    """
    from charset_normalizer import from_bytes  # only for a file that is not UTF-8

    fits = expected != "utf-8" and _extends_ascii(expected) and _is_valid(sample, expected)
    if fits and sum(byte > 127 for byte in sample) < _EVIDENCE:
        return expected
    candidates = list(dict.fromkeys([*_CANDIDATES, *([expected] if fits else [])]))
    matches = list(from_bytes(sample, cp_isolation=candidates, enable_fallback=False))
    limit = min((match.chaos for match in matches), default=1.0) + _NEARLY_AS_GOOD
    good = [match for match in matches if match.chaos <= limit]
    fitting = {codecs.lookup(n).name for match in good for n in match.could_be_from_charset}
    if fits and (not matches or codecs.lookup(expected).name in fitting):
        return expected
    if matches:
        best = matches[0]
        equal = [m for m in matches if (m.chaos, m.coherence) == (best.chaos, best.coherence)]
        names = {name for match in equal for name in match.could_be_from_charset}
        return "cp1252" if "cp1252" in names else str(best.encoding)
    return "cp1252" if _is_valid(sample, "cp1252") else "latin-1"


def _is_valid(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
