// The word tokenizer and vocabulary lookup, the same as lamatext.data.tokenizer and text_encoder.

const UNSPACED = "\\u2e80-\\u2fdf\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const MODIFIERS = "\\u{1f3fb}-\\u{1f3ff}\\u{e0020}-\\u{e007f}"; // skin tones; tags in the flags of regions
const FLAGS = "\\u{1f1e6}-\\u{1f1ff}"; // two of these letters make the flag of a country
const WHITESPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // Python's

const mark = "(?:(?![\\u{10000}-\\u{10ffff}])\\p{M})"; // in the basic multilingual plane
const letter = `(?:(?![${UNSPACED}])[\\p{L}\\p{N}_]${mark}*)`;
const symbol = `[^\\p{L}\\p{N}_${WHITESPACE}]`;
const WORD = new RegExp(
  `${letter}+(?:['’\\u200c\\u200d]${letter}+)*|[${UNSPACED}]${mark}*|[${FLAGS}]{2}|` +
    `${symbol}(?:${mark}|[${MODIFIERS}]|\\u200d${symbol})*`,
  "gu",
);

/** Spans of the words: [start, end] in UTF-16 units. */
export function spansOf(text) {
  return Array.from(text.matchAll(WORD), match => [match.index, match.index + match[0].length]);
}

export const UNKNOWN = 1; // id of words outside the vocabulary

/** Turns a text into the token ids that the network reads. */
export class Encoder {
  constructor(words, { lowercase, rare_words, max_words, last_words = 0 }) {
    this.ids = new Map(words.map((word, id) => [word, id]).slice(2)); // without <pad> and <unk>
    Object.assign(this, { lowercase, rareWords: rare_words, maxWords: max_words ?? Infinity, lastWords: last_words });
  }

  /** All words with their spans; the token ids for the network, and the word index of each id. */
  encode(text) {
    const spans = spansOf(text);
    const words = spans.map(([start, end]) => {
      const word = text.slice(start, end);
      return this.lowercase ? word.toLowerCase() : word;
    });
    let indices = words.map((_, index) => index);
    if (this.rareWords === "drop") indices = indices.filter(index => this.ids.has(words[index]));
    if (indices.length > this.maxWords) {
      const first = indices.slice(0, this.maxWords - this.lastWords);
      indices = first.concat(indices.slice(indices.length - this.lastWords));
    }
    const ids = indices.map(index => this.ids.get(words[index]) ?? UNKNOWN);
    return { spans, words, indices, ids: ids.length ? ids : [UNKNOWN] };
  }
}
