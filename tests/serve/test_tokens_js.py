import pytest

from lamatext.data.tokenizer import WordTokenizer
from tests.serve.node import needs_node, run
from tests.serve.odd import PIECES, odd_texts

pytestmark = needs_node

SCRIPT = """
const { Reader, spansOf } = await load("tokens.js");
const points = (text, at) => Array.from(text.slice(0, at)).length;
tell(given.texts.map(text => {
  const reader = new Reader([], { lower: given.lower, rare: "unknown", max_words: null });
  return [reader.read(text).words, spansOf(text).map(span => span.map(at => points(text, at)))];
}));
"""


@pytest.mark.parametrize("lower", [True, False])
def test_words_and_places_are_those_of_python(lower: bool) -> None:
    texts = [*PIECES, *odd_texts(3000)]
    tokenizer = WordTokenizer(lower=lower)

    found = run(SCRIPT, {"texts": texts, "lower": lower})

    for text, (words, spans) in zip(texts, found, strict=True):
        assert words == tokenizer.words(text), ascii(text)
        assert [tuple(span) for span in spans] == tokenizer.spans(text), ascii(text)
