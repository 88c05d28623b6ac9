"""Texts with unusual characters: mixed scripts, emoji, control characters, markup."""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

PIECES = [
    *("a", "Good", "FILM", "don't", "don’t", "rock'n'roll", "'tis", "it's'", "_x_", "x_1", "café"),
    *("cafe\u0301", "naïve", "ΣΟΦΟΣ", "ΌΔΟΣ.", "İstanbul", "ẞ", "ﬁn", "Ǆ", "K", "Å", "ΐ", "\u1e9e"),
    *("東京", "好きです", "カタカナ", "ｶﾅ", "한국어", "ไทย", "हिन्दी", "நல்ல", "עברית", "نص\u200cها"),
    *("ภาษาไทย", "น้ำ", "ดีๆ", "๒๕", "ນ້ຳ", "ພາສາ", "ភាសាខ្មែរ", "ស្រី", "\u17d2", "មន្ត្រី", "မြန်မာ"),
    *(
        "မန္တလေး",
        "\u1039",
        "၁၂",
        "ာ",
        "\u0e33",
        "ന്\u200d",
        "\u200c",
        "葛\U000e0100",
        "𑀓𑀼",
        "\U0001e8d0",
    ),
    *(
        "क्\u200dष",
        "😀",
        "👍🏽",
        "👩\u200d👩\u200d👧",
        "🇩🇪",
        "🇩🇪🇫🇷🇺",
        "🏴\U000e0067\U000e0062\U000e007f",
    ),
    *("❤️", "1️⃣", "½", "²", "Ⅷ", "①", "٣", "１２", "3.14", "1,000", "-5", "$9.99", "#tag", "@you"),
    *("<script>alert(1)</script>", "&amp;", "</textarea>", "\\n", '"', "`", "…", "—", "«»", "„“"),
    *(
        "\x00",
        "\x1b[31m",
        "\x1c",
        "\x1d",
        "\x1f",
        "\x7f",
        "\x85",
        "\xa0",
        "\xad",
        "\u200b",
        "\u200d",
    ),
    *("\u200e", "\u202e", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\ufeff"),
    *("\ufffd", "\uffff", "\U0001d400", "\U00020000", "\U0010ffff", "\u0300", "\u0301a", "\ud800"),
    *(
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\x0b",
        "\x0c",
        "",
        "'",
        "’",
        "''",
        "a'",
        "'a",
        "a''b",
        "a’b'c",
    ),
]


def texts_without_spaces(count: int, *, seed: int = 0) -> list[str]:
    """Draw random strings of Thai, Lao, Khmer, Burmese, Chinese, Japanese, marks and joiners."""
    blocks = [(0x0E01, 0x0E5B), (0x0E81, 0x0EDF), (0x1780, 0x17F9), (0x1000, 0x109F)]
    blocks += [(0xAA60, 0xAA7F), (0xA9E0, 0xA9FE), (0x3041, 0x30FF), (0x4E00, 0x4FFF)]
    blocks += [(0x200B, 0x200D), (0x41, 0x5A)]
    assigned = [
        [code for code in range(low, high + 1) if unicodedata.category(chr(code)) != "Cn"]
        for low, high in blocks
    ]
    draw, texts = np.random.default_rng(seed), []
    for _ in range(count):
        scripts = draw.integers(0, len(assigned), draw.integers(1, 4))
        codes = [draw.choice(assigned[draw.choice(scripts)]) for _ in range(draw.integers(1, 25))]
        texts.append("".join(map(chr, codes)))
    return texts


def unusual_texts(count: int, *, seed: int = 0) -> list[str]:
    """Draw random sequences of the pieces and of single Unicode characters."""
    draw, assigned = np.random.default_rng(seed), _assigned_code_points()
    texts = []
    for _ in range(count):
        parts = [
            PIECES[draw.integers(len(PIECES))]
            if draw.random() < 0.8
            else chr(draw.choice(assigned))
            for _ in range(draw.integers(0, 12))
        ]
        texts.append(("" if draw.random() < 0.5 else " ").join(parts))
    return texts


@cache
def _assigned_code_points() -> NDArray[np.int64]:
    """Return the code points that Python's Unicode version assigns to a character."""
    unassigned = {"Cn", "Cs", "Co"}
    return np.array([c for c in range(0x110000) if unicodedata.category(chr(c)) not in unassigned])
