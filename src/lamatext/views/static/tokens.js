// The word tokenizer and vocabulary lookup, the same as lamatext.data.tokenizer and text_encoder.

const IDEOGRAPHS = "\\u2e80-\\u2fdf\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const SOUTHEAST_ASIAN = // Thai, Lao, Khmer and Burmese, without digits
  "\\u0e01-\\u0e4e\\u0e81-\\u0ecf\\u0edc-\\u0edf\\u1780-\\u17d3\\u17d7-\\u17dd" +
  "\\u1000-\\u103f\\u104e-\\u108f\\u109a-\\u109f\\ua9e0-\\ua9ef\\ua9fa-\\ua9fe\\uaa60-\\uaa7f";
const STACKERS = "\\u1039\\u17d2"; // write the next letter below the last
const VOWEL_AM = "\\u0e33\\u0eb3"; // a letter that belongs to the one before
const JOINERS = "\\u200c\\u200d";
const YAMAKKAN = "\\u0ece"; // mark of Lao that Unicode 14 does not know
const MODIFIERS = "\\u{1f3fb}-\\u{1f3ff}\\u{e0020}-\\u{e007f}"; // skin tones; tags in the flags of regions
const FLAGS = "\\u{1f1e6}-\\u{1f1ff}"; // two of these letters make the flag of a country
const WHITESPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // Python's
const SIGN = `[^\\p{L}\\p{N}_${WHITESPACE}]`;

/** The regular expression of each tokenizer version. */
const WORD = { 1: wordsOfVersion1(), 2: wordsOfVersion2() };

function wordsOfVersion1() {
  const mark = "(?:(?![\\u{10000}-\\u{10ffff}])\\p{M})"; // in the basic multilingual plane
  const letter = `(?:(?![${IDEOGRAPHS}])[\\p{L}\\p{N}_]${mark}*)`;
  return new RegExp(
    `${letter}+(?:['’${JOINERS}]${letter}+)*|[${IDEOGRAPHS}]${mark}*|[${FLAGS}]{2}|` +
      `${SIGN}(?:${mark}|[${MODIFIERS}]|\\u200d${SIGN})*`,
    "gu",
  );
}

function wordsOfVersion2() {
  const marks = `\\p{M}${YAMAKKAN}${JOINERS}`;
  const unspaced = IDEOGRAPHS + SOUTHEAST_ASIAN;
  const letter = `(?:(?![${unspaced}])[\\p{L}\\p{N}_][${marks}]*)`;
  const cluster = `[${unspaced}](?:[${STACKERS}][${SOUTHEAST_ASIAN}]|[${marks}${VOWEL_AM}])*`;
  return new RegExp(
    `${letter}+(?:['’]${letter}+)*|${cluster}|[${FLAGS}]{2}|` +
      `${SIGN}(?:\\u200d${SIGN}|[${marks}${MODIFIERS}])*`,
    "gu",
  );
}

const UNSPACED_LETTER = new RegExp(`^[${IDEOGRAPHS}${SOUTHEAST_ASIAN}]`, "u");
const KATAKANA = /^[\u30a0-\u30ff]/;
const LETTER_OF_SOUNDS = new RegExp(`^[\\u3040-\\u309f${SOUTHEAST_ASIAN}]`, "u");

/** The kind of script without spaces that a word belongs to, or null. */
export function unspacedScript(word) {
  if (!UNSPACED_LETTER.test(word)) return null;
  if (KATAKANA.test(word)) return "katakana";
  return LETTER_OF_SOUNDS.test(word) ? "letters" : "ideographs";
}

/** Spans of the words: [start, end] in UTF-16 units. */
export function spansOf(text, version) {
  return Array.from(text.matchAll(WORD[version]), match => [match.index, match.index + match[0].length]);
}

export const UNKNOWN = 1; // id of words outside the vocabulary

/** Turns a text into the token ids that the network reads. */
export class Encoder {
  constructor(words, { tokenizer_version, lowercase, rare_words, max_words, last_words = 0 }) {
    this.ids = new Map(words.map((word, id) => [word, id]).slice(2)); // without <pad> and <unk>
    Object.assign(this, { version: tokenizer_version, lowercase, rareWords: rare_words, maxWords: max_words ?? Infinity, lastWords: last_words });
  }

  /** How many of the words are in the vocabulary. */
  countKnown(words) {
    return words.filter(word => this.ids.has(word)).length;
  }

  /** All words with their spans; the token ids for the network, and the word index of each id. */
  encode(text) {
    const spans = spansOf(text, this.version);
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
