import pytest

from lamatext.data.tokenizer import WordTokenizer
from tests.serve.javascript import needs_node, run_javascript
from tests.serve.unusual_texts import PIECES, texts_without_spaces, unusual_texts

pytestmark = needs_node

SCRIPT = """
const { Encoder, spansOf } = await load("tokens.js");
const codePoints = (text, at) => Array.from(text.slice(0, at)).length;
const settings = { lowercase: data.lowercase, rare_words: "unknown", max_words: null };
const encoder = new Encoder([], { ...settings, tokenizer_version: data.version });
const spans = text =>
  spansOf(text, data.version).map(span => span.map(at => codePoints(text, at)));
print(data.texts.map(text => [encoder.encode(text).words, spans(text)]));
"""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("lowercase", [True, False])
def test_words_and_spans_are_the_same_in_javascript_and_python(
    lowercase: bool, version: int
) -> None:
    texts = [*PIECES, *unusual_texts(3000), *texts_without_spaces(2000)]
    if version > 1:
        texts.append("ກ\u0eceຂ")  # with a mark that is new in Unicode 15
    tokenizer = WordTokenizer(lower=lowercase, version=version)

    results = run_javascript(SCRIPT, {"texts": texts, "lowercase": lowercase, "version": version})

    for text, (words, spans) in zip(texts, results, strict=True):
        assert words == tokenizer.words(text), ascii(text)
        assert [tuple(span) for span in spans] == tokenizer.spans(text), ascii(text)
