// Text to words, each with its place in the text: the rules of lamatext.data.tokens.

const UNSPACED = "\\u2e80-\\u2fdf\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const MODIFIERS = "\\u{1f3fb}-\\u{1f3ff}\\u{e0020}-\\u{e007f}"; // skin tones; tags, of regions' flags
const FLAGS = "\\u{1f1e6}-\\u{1f1ff}"; // letters that make a country's flag in pairs
const BLANK = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // Python's

const mark = "(?:(?![\\u{10000}-\\u{10ffff}])\\p{M})"; // of the basic plane
const letter = `(?:(?![${UNSPACED}])[\\p{L}\\p{N}_]${mark}*)`;
const sign = `[^\\p{L}\\p{N}_${BLANK}]`;
const WORD = new RegExp(
  `${letter}+(?:['’\\u200c\\u200d]${letter}+)*|[${UNSPACED}]${mark}*|[${FLAGS}]{2}|` +
    `${sign}(?:${mark}|[${MODIFIERS}]|\\u200d${sign})*`,
  "gu",
);

/** Where the words stand: [start, end] in UTF-16 units, as JavaScript counts. */
export function spansOf(text) {
  return Array.from(text.matchAll(WORD), found => [found.index, found.index + found[0].length]);
}

export const UNKNOWN = 1; // the id of a word outside the vocabulary

/** What turns a text into the ids a network reads. */
export class Reader {
  constructor(words, { lowercase, rare_words, max_words, last_words = 0 }) {
    this.ids = new Map(words.map((word, id) => [word, id]).slice(2)); // <pad> and <unk> are no words
    Object.assign(this, { lowercase, rare: rare_words, most: max_words ?? Infinity, tail: last_words });
  }

  /** All words with their spans; the ids of those that are read, and which words these are. */
  read(text) {
    const spans = spansOf(text);
    const words = spans.map(([start, end]) => {
      const word = text.slice(start, end);
      return this.lowercase ? word.toLowerCase() : word;
    });
    let places = words.map((_, place) => place);
    if (this.rare === "drop") places = places.filter(place => this.ids.has(words[place]));
    if (places.length > this.most) {
      const head = places.slice(0, this.most - this.tail);
      places = head.concat(places.slice(places.length - this.tail));
    }
    const ids = places.map(place => this.ids.get(words[place]) ?? UNKNOWN);
    return { spans, words, places, ids: ids.length ? ids : [UNKNOWN] };
  }
}
