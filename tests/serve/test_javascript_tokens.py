import pytest

from lamatext.data.tokenizer import WordTokenizer
from tests.serve.javascript import needs_node, run_javascript
from tests.serve.unusual_texts import PIECES, unusual_texts

pytestmark = needs_node

SCRIPT = """
const { Encoder, spansOf } = await load("tokens.js");
const codePoints = (text, at) => Array.from(text.slice(0, at)).length;
const settings = { lowercase: data.lowercase, rare_words: "unknown", max_words: null };
const encoder = new Encoder([], settings);
print(data.texts.map(text =>
  [encoder.encode(text).words, spansOf(text).map(span => span.map(at => codePoints(text, at)))]));
"""


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_and_spans_are_the_same_in_javascript_and_python(lowercase: bool) -> None:
    texts = [*PIECES, *unusual_texts(3000)]
    tokenizer = WordTokenizer(lower=lowercase)

    results = run_javascript(SCRIPT, {"texts": texts, "lowercase": lowercase})

    for text, (words, spans) in zip(texts, results, strict=True):
        assert words == tokenizer.words(text), ascii(text)
        assert [tuple(span) for span in spans] == tokenizer.spans(text), ascii(text)
