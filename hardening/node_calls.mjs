// Calls of the web page's modules for node_process.py: one JSON line in, one JSON line out.
// The n-gram hashes are private to ngrams.js, so its source is imported with one more export.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
const folder = process.argv[2];
const load = name => import("file://" + folder + "/" + name);
const source = readFileSync(folder + "/ngrams.js", "utf8").replace('"./weights.js"', `"file://${folder}/weights.js"`)
  + "\nexport { wordNgrams, characterNgrams };";
const { wordNgrams, characterNgrams } = await import("data:text/javascript," + encodeURIComponent(source));
const { Encoder, spansOf } = await load("tokens.js");
const { Model } = await load("model.js");
// The position of each UTF-16 unit of a text in code points, as Python counts.
const codePoints = text => {
  const positions = [];
  let position = 0;
  for (const point of text) {
    for (let unit = 0; unit < point.length; unit++) positions.push(position);
    position++;
  }
  return [...positions, position];
};
const bytes = text => {
  const buffer = Buffer.from(text, "base64");
  return buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.length);
};
const calls = {
  tokenize({ text, lowercase, version }) {
    const encoder = new Encoder([], { tokenizer_version: version, lowercase, rare_words: "unknown", max_words: null });
    const positions = codePoints(text);
    return { words: encoder.encode(text).words,
      spans: spansOf(text, version).map(span => span.map(at => positions[at])) };
  },
  hash({ words, longest, characters }) {
    const key = ngram => [ngram.key, ngram.first, ngram.width];
    return { words: wordNgrams(words, longest).map(key),
      characters: characterNgrams(words, characters).map(key) };
  },
  async explain({ description, model: weights, ngrams, text }) {
    const model = new Model(description, bytes(weights), ngrams === undefined ? null : bytes(ngrams));
    const { probabilities, contributions } = await model.explain(text, async () => {});
    return { probabilities, contributions };
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { call, value } = JSON.parse(line);
    answer = { value: await calls[call](value) };
  } catch (error) {
    answer = { error: error.name, message: String(error.message).slice(0, 300) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
