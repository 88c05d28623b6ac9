"""Deterministic mutation of fuzz inputs: case ``number`` of a seed is always the same bytes."""

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

MAX_BYTES = 1 << 16  # of one mutated input
INTERESTING_BYTES = b"\x00\x01\x09\x0a\x0d\x20\x22\x27\x2c\x5c\x7f\x80\xbf\xc0\xed\xef\xf0\xfe\xff"
NUMBERS = (
    b"0", b"-1", b"1", b"255", b"256", b"65536", b"2147483647", b"2147483648", b"4294967295",
    b"9223372036854775808", b"-9223372036854775809", b"1e308", b"1e999", b"-0", b"0.1", b"NaN",
    b"Infinity", b"9" * 5000,
)  # fmt: skip
UNUSUAL_TEXT = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        *("\u0000", "\u0001", "\u001b[31m", "\u0085", "\u00a0", "\u200b", "\u200d", "\u202e"),
        *("\u2028", "\ufeff", "\uffff", "\ud800", "\udfff", "\U0010ffff", "\U0001f468\u200d"),
        *(
            "İ",
            "ß",
            "ΣΑΣ",
            "ǅ",
            "e\u0301",
            "東京",
            "한국어",
            "🇩🇪",
            "👍🏽",
            "क्\u200dष",
            "‏עברית",
            "don’t",
        ),
    )
)

T = TypeVar("T")
Mutation = Callable[[random.Random, bytearray, Sequence[bytes]], None]


class ByteSource:
    """Decisions drawn from the bytes of a fuzz input, then from random bytes seeded by the input.

    Structured targets read their mutation plan from it, so that coverage-guided fuzzing can steer
    each decision by changing a byte.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0
        self._more = random.Random(data)

    def number(self, limit: int) -> int:
        """Draw a number from 0 to ``limit - 1`` out of the input's next bytes."""
        width = max(1, (limit - 1).bit_length() + 7 >> 3)
        return int.from_bytes(self.bytes(width), "little") % max(1, limit)

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of the options out of the input's next bytes."""
        return options[self.number(len(options))]

    def bytes(self, count: int) -> bytes:
        """Return the next bytes of the input, or random ones after its end."""
        part = self.data[self.position : self.position + count]
        self.position += count
        return part + self._more.randbytes(count - len(part))


def make_case(seeds: Sequence[bytes], words: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return fuzz input ``number`` of a seed; the first inputs are the unmodified seed inputs."""
    if number < len(seeds):
        return seeds[number]
    draw = random.Random(f"{seed}/{number}")
    data = bytearray(draw.choice(seeds))
    if draw.random() < 0.1:
        _splice(draw, data, seeds)
    for _ in range(min(1 + int(draw.expovariate(0.7)), 12)):
        draw.choice(MUTATIONS)(draw, data, words)
        del data[MAX_BYTES:]
    return bytes(data)


def _splice(draw: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = draw.choice(seeds)
    start, end = _range(draw, other)
    data[draw.randint(0, len(data)) :] = other[start:end]


def _range(draw: random.Random, data: Sequence[int]) -> tuple[int, int]:
    start = draw.randint(0, len(data))
    return start, min(len(data), start + int(draw.expovariate(1 / 12)) + 1)


def _flip_bit(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set_byte(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] = draw.choice(INTERESTING_BYTES)


def _random_byte(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] = draw.randrange(256)


def _delete(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _range(draw, data)
    del data[start:end]


def _truncate(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[draw.randint(0, len(data)) :]


def _duplicate(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _range(draw, data)
    copies = 1 << min(int(draw.expovariate(0.35)), 11)
    data[end:end] = bytes(data[start:end]) * copies


def _move(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _range(draw, data)
    part = bytes(data[start:end])
    del data[start:end]
    place = draw.randint(0, len(data))
    data[place:place] = part


def _insert_word(draw: random.Random, data: bytearray, words: Sequence[bytes]) -> None:
    place = draw.randint(0, len(data))
    word = draw.choice(words) if words else draw.choice(UNUSUAL_TEXT)
    data[place:place] = word


def _insert_text(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = draw.randint(0, len(data))
    data[place:place] = draw.choice(UNUSUAL_TEXT)


def _replace_by_word(draw: random.Random, data: bytearray, words: Sequence[bytes]) -> None:
    start, end = _range(draw, data)
    data[start:end] = draw.choice(words or UNUSUAL_TEXT)


def _insert_random(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = draw.randint(0, len(data))
    data[place:place] = draw.randbytes(draw.randint(1, 16))


def _replace_number(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?", data[:4096]))
    if numbers:
        match = draw.choice(numbers)
        data[match.start() : match.end()] = draw.choice(NUMBERS)


def _swap_lines(draw: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    lines = bytes(data).split(b"\n")
    if len(lines) > 2:
        first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[first], lines[second] = lines[second], lines[first]
        data[:] = b"\n".join(lines)


MUTATIONS: tuple[Mutation, ...] = (
    _flip_bit,
    _set_byte,
    _random_byte,
    _delete,
    _truncate,
    _duplicate,
    _move,
    _insert_word,
    _insert_word,
    _insert_text,
    _replace_by_word,
    _insert_random,
    _replace_number,
    _swap_lines,
)
