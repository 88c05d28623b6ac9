"""A node process that runs functions of the web page's JavaScript, one JSON line per call."""

import json
import shutil
import subprocess
from importlib.resources import files
from typing import Any

from hardening.fuzz_target import FindingError

SCRIPT = """
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
const folder = process.argv[1];
const load = name => import("file://" + folder + "/" + name);
const source = readFileSync(folder + "/ngrams.js", "utf8") + "\\nexport { wordNgrams, characterNgrams };";
const { wordNgrams, characterNgrams } = await import("data:text/javascript," + encodeURIComponent(source));
const { Encoder, spansOf } = await load("tokens.js");
const { Model } = await load("model.js");
const codePoints = (text, at) => Array.from(text.slice(0, at)).length;
const bytes = text => { const b = Buffer.from(text, "base64"); return b.buffer.slice(b.byteOffset, b.byteOffset + b.length); };
const calls = {
  tokenize({ text, lowercase }) {
    const encoder = new Encoder([], { lowercase, rare_words: "unknown", max_words: null });
    return { words: encoder.encode(text).words,
      spans: spansOf(text).map(span => span.map(at => codePoints(text, at))) };
  },
  hash({ words, longest, characters }) {
    const key = ngram => [ngram.key, ngram.first, ngram.width];
    return { words: wordNgrams(words, longest).map(key), characters: characterNgrams(words, characters).map(key) };
  },
  async explain({ description, weights, ngrams, text }) {
    const model = new Model(description, bytes(weights), ngrams && bytes(ngrams));
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
  process.stdout.write(JSON.stringify(answer) + "\\n");
}
"""


class NodeError(Exception):
    """An error that the web page's JavaScript threw, with its name in JavaScript."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class NodeProcess:
    """A running node process with the JavaScript modules of the web page."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise FileNotFoundError("node is not installed: apt install nodejs")
        static = files("lamatext.views").joinpath("static")
        self.process = subprocess.Popen(
            [node, "--input-type=module", "--eval", SCRIPT, str(static)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def call(self, name: str, value: object) -> Any:
        """Call a JavaScript function in node; raise NodeError if it throws."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"call": name, "value": value}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise FindingError(f"node ended: {self.process.stderr.read()[-500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise NodeError(answer["error"], answer["message"])
        return answer["value"]

    def close(self) -> None:
        """End the node process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
