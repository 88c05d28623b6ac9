"""Fuzz targets of texts: tokenizer and n-gram hashes in Python, C and JavaScript, settings."""

import tempfile
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardening.fuzz_target import FindingError, FuzzTarget
from hardening.mutation import UNUSUAL_TEXT
from hardening.node_process import NodeProcess
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import EncodedTexts, FramedTexts
from lamatext.data.tokenizer import TOKENIZER_VERSION, WordTokenizer
from lamatext.data.vocabulary import RareWords, Vocabulary
from lamatext.ngrams.hashing import NgramSpec, hash_ngrams
from lamatext.recipes import load_recipe, parse_assignments, resolve_recipe
from lamatext.settings import Recipe, setting_names

WORD_NGRAMS, CHARACTER_NGRAMS = 3, (2, 5)
TEXTS = (
    "A good film, isn't it? 3.14 rock'n'roll",
    "ΣΟΦΟΣ İstanbul ẞ ǅ naïve cafe\u0301 東京 好きです 한국어 हिन्दी نص\u200cها",
    "ภาษาไทยน้ำดีๆ๒๕ ພາສາລາວນ້ຳ ភាសាខ្មែរ មន្តលេះ မြန်မာ ന്\u200d 葛\U000e0100 𑀓𑀼",
    "😀👍🏽👩\u200d👩\u200d👧🇩🇪🇫🇷🇺 ❤️ 1️⃣ ½² <b>&amp;</b> \x00\x1b[31m\x85\xa0\u2028\ufeff",
)
RECIPES = (
    b'extends = "default"\nseed = 3\n[model]\nheads = 4\n',
    b'extends = "paper"\n[text]\nmin_count = "auto"\nmax_words = 100\n[training]\nepochs = 2\n',
    b'[model]\nname = "te"\nheads = 4\n[ngrams]\nenabled = true\ncharacters = "auto"\n',
    b'[training]\nclass_weight = {pos = 2.0, "neg" = 1}\nlearning_rate = 1e-3\n',
)
ASSIGNMENTS = (
    b"\1model.heads=8\ntraining.epochs=auto",
    b"\1text.max_words=none\nmodel.name=san\nstorage=int8",
    b'\1training.class_weight={"a" = 2}\nseed = 5',
)
SETTING_WORDS = (
    *(b"=", b"\n", b'"', b"'", b"[", b"]", b"[[", b"{", b"}", b"#", b".", b'"""', b"_", b"inf"),
    *(b"none", b"auto", b"nan", b"1979-05-27T07:32:00Z", b"0x", b"1_000", b"true", b"extends = "),
    *(name.encode() for name in setting_names()),
    *(
        b"[model]\n",
        b"[text]\n",
        b"[training]\n",
        b"[ngrams]\n",
        b"[" * 4000,
        b"a = " + b"[" * 4000,
        b"a." * 500,
    ),
)


def build_target(name: str) -> FuzzTarget:
    """Build a fuzz target of texts or settings."""
    texts = [b"\0" + text.encode() for text in TEXTS]
    texts += [b"\1" + text.encode("utf-16-le") for text in TEXTS]
    texts += [b"\2" + text for text in UNUSUAL_TEXT]
    match name:
        case "tokenizer":
            return FuzzTarget(name, check_tokenizer, texts, UNUSUAL_TEXT)
        case "text_encoder":
            return FuzzTarget(name, check_text_encoder, texts, UNUSUAL_TEXT)
        case "ngrams":
            return FuzzTarget(name, check_ngrams, texts, UNUSUAL_TEXT)
        case _:
            seeds = [*(b"\0" + recipe for recipe in RECIPES), *ASSIGNMENTS]
            return FuzzTarget(name, check_settings, seeds, SETTING_WORDS)


def decode_text(data: bytes) -> str:
    """Turn fuzz bytes into a text: UTF-8 or UTF-16 by the first byte, invalid bytes included.

    Characters that Python's Unicode version does not assign are replaced: node may know a later
    version, in which they are letters.
    """
    if data[:1] and data[0] & 1:
        even = data[1:][: (len(data) - 1) // 2 * 2]
        text = even.decode("utf-16-le", "surrogatepass")
    else:
        text = data[1:].decode("utf-8", "surrogateescape")
    return "".join("?" if unicodedata.category(c) == "Cn" else c for c in text)


def check_tokenizer(data: bytes) -> None:
    """Compare the words and spans of a text in Python and in JavaScript."""
    text = decode_text(data)
    lowercase = not (data[:1] and data[0] & 4)
    version = 1 if data[:1] and data[0] & 8 else TOKENIZER_VERSION
    tokenizer = WordTokenizer(lower=lowercase, version=version)
    words, spans = tokenizer.words(text), tokenizer.spans(text)
    if len(words) != len(spans):
        raise FindingError(f"not one span per word: {text!a}")
    if not lowercase and words != [text[start:end] for start, end in spans]:
        raise FindingError(f"words differ from their spans: {text!a}")
    value = {"text": text, "lowercase": lowercase, "version": version}
    answer = node().call("tokenize", value)
    if answer["words"] != words or [tuple(span) for span in answer["spans"]] != spans:
        raise FindingError(f"JavaScript differs: {text!a}: {words} {answer['words']}")


def check_text_encoder(data: bytes) -> None:
    """Compare the word ids and the code points of words in Python and in C.

    The first byte sets options; the texts are the lines of the input, and every second word of them
    is in the vocabulary.
    """
    flags = data[0] if data[:1] else 0
    texts = decode_text(data).split("\n")
    tokenizer = WordTokenizer(lower=not flags & 4, version=1 if flags & 8 else TOKENIZER_VERSION)
    known = sorted({word for text in texts for word in tokenizer.words(text)})[::2]
    max_words, last_words = (None, 0) if flags & 16 else (flags >> 4, flags >> 5)
    rare_words: RareWords = "unknown" if flags & 32 else "drop"
    encoder = TextEncoder(tokenizer, Vocabulary(known), rare_words, max_words, last_words)
    expected = encoder.encode_all(texts, framed=False)
    encoded = encoder.encode_all(texts, framed=True)
    for array, other in zip(_arrays(encoded), _arrays(expected), strict=True):
        if not np.array_equal(array, other):
            raise FindingError(f"the encoded texts differ in C: {texts!a}")


def _arrays(encoded: EncodedTexts) -> list[NDArray[Any]]:
    words = encoded.words
    framed = words if isinstance(words, FramedTexts) else FramedTexts.of(words)
    counts = (encoded.word_counts, encoded.known_counts)
    return [encoded.ids.ids, encoded.ids.offsets, *framed, *counts]


def check_ngrams(data: bytes) -> None:
    """Compare the n-gram hash keys of a text's words in Python and in JavaScript."""
    words = WordTokenizer().words(decode_text(data))
    value = {"words": words, "longest": WORD_NGRAMS, "characters": CHARACTER_NGRAMS}
    answer = node().call("hash", value)
    specs = {
        "words": NgramSpec(WORD_NGRAMS, None),
        "characters": NgramSpec(0, CHARACTER_NGRAMS),
    }
    for kind, spec in specs.items():
        ngrams = hash_ngrams(words, spec)
        columns = (ngrams.keys.tolist(), ngrams.first.tolist(), ngrams.width.tolist())
        python = sorted(zip(*columns, strict=True))
        if python != sorted(map(tuple, answer[kind])):
            raise FindingError(f"n-gram hashes differ in JavaScript, {kind}: {words!a}")


def check_settings(data: bytes) -> None:
    """Parse a recipe file or ``--set`` assignments, by the first byte of the input."""
    if data[:1] and data[0] & 1:
        lines = data[1:].decode("utf-8", "surrogateescape").split("\n")
        recipe = resolve_recipe(values=parse_assignments(lines))
    else:
        path = recipe_path()
        path.write_bytes(data[1:])
        recipe = load_recipe(str(path))
    if Recipe.model_validate(recipe.model_dump()) != recipe:
        raise FindingError("the settings change when they are written and read again")


@cache
def recipe_path() -> Path:
    """Return the path of the recipe file that the settings target writes."""
    return Path(tempfile.mkdtemp(prefix="settings-")) / "recipe.toml"


@cache
def node() -> NodeProcess:
    """Start the node process of the text targets."""
    return NodeProcess()
