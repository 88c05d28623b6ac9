// The n-gram model, like lamatext.ngrams: a linear model on hashed n-grams of words and characters.
// The hash of an n-gram is a 32-bit key; Math.imul and >>> 0 compute modulo 2³².

import { ModelError, checkTensor } from "./weights.js";

const BASE = 2654435761 | 0, STEP = 0x9e3779b9 | 0;
const WORD_START = 2, WORD_END = 3; // boundary markers around a word

/** Mix the bits of h (the finalizer of MurmurHash3). */
function mix(h) {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const codePoints = word => [WORD_START, ...Array.from(word, character => character.codePointAt(0)), WORD_END];

/** All n-grams of 1 to `longest` words: {key, first, width}, where first is the index of the first word. */
function wordNgrams(words, longest) {
  const hashes = words.map(word => mix(codePoints(word).reduceRight((h, c) => (Math.imul(h, BASE) + c) | 0, 0)));
  const ngrams = [];
  for (let first = 0; first < words.length; first++) {
    let hash = 0;
    for (let width = 1; width <= longest && first + width <= words.length; width++) {
      hash = (Math.imul(hash, BASE) + hashes[first + width - 1]) | 0;
      ngrams.push({ key: width === 1 ? hashes[first] : mix(hash), first, width });
    }
  }
  return ngrams;
}

/** All n-grams of `shortest` to `longest` characters within a word and its boundary markers. */
function characterNgrams(words, [shortest, longest]) {
  const ngrams = [];
  words.forEach((word, first) => {
    const points = codePoints(word);
    for (let from = 0; from < points.length; from++) {
      let hash = 0;
      for (let n = 1; n <= longest && from + n <= points.length; n++) {
        hash = (Math.imul(hash, BASE) + points[from + n - 1]) | 0;
        if (n >= shortest) ngrams.push({ key: mix((hash + Math.imul(n, STEP)) | 0), first, width: 1 });
      }
    }
  });
  return ngrams;
}

const ngramsOf = (words, spec) =>
  spec.characters ? characterNgrams(words, spec.characters) : wordNgrams(words, spec.words);

/** The occurrences of each n-gram by its key: the input of a table in the ONNX file of a whole model. */
export function countNgrams(words, spec) {
  const counts = new Map();
  for (const { key } of ngramsOf(words, spec)) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/** Index of `key` in ascending keys by binary search, or -1. */
function indexOfKey(keys, key) {
  let low = 0, high = keys.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (keys[middle] === key) return middle;
    if (keys[middle] < key) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** Check the tensors of an n-gram model with `blocks` tables and `rows` rows of weights. */
export function checkNgrams(tensors, blocks, rows) {
  checkTensor(tensors, "bias", [rows], ["F32"]);
  if (tensors.range_power) {
    checkTensor(tensors, "range_power", [1], ["F32"]);
    const power = tensors.range_power.values[0];
    if (!(power >= 0 && power < 1) || (power && rows === 1)) {
      throw new ModelError("The model is damaged: range_power of the n-grams must be at least 0 and below 1, and 0 for two classes.");
    }
  }
  blocks.forEach((_, number) => {
    const size = tensors[`${number}.keys`]?.values.length;
    checkTensor(tensors, `${number}.keys`, [size], ["U32"], Infinity);
    checkTensor(tensors, `${number}.idf`, [size], ["U8"]);
    checkTensor(tensors, `${number}.weights`, [rows, size], ["I8"]);
    checkTensor(tensors, `${number}.idf_step`, [1], ["F32"]);
    checkTensor(tensors, `${number}.steps`, [rows], ["F32"]);
    const keys = tensors[`${number}.keys`].values;
    if (keys.some((key, k) => k && key <= keys[k - 1])) {
      throw new ModelError(`The model is damaged: the n-gram keys of table ${number} are not ascending.`);
    }
  });
}

/** Runs of two or more words that occur together in more training texts than by chance, the strongest
 *  association first: [{first, width}]. Only runs for which `allowed(first, width)` is true. */
export function associatedWords({ blocks, tensors }, words, allowed) {
  const keys = tensors["0.keys"].values, idf = tensors["0.idf"].values;
  const step = tensors["0.idf_step"].values[0];
  const known = key => { const column = indexOfKey(keys, key); return column < 0 ? 0 : idf[column]; };
  const ngrams = wordNgrams(words, blocks[0].words).map(ngram => ({ ...ngram, idf: known(ngram.key) }));
  const single = ngrams.filter(ngram => ngram.width === 1).map(ngram => ngram.idf);
  const sumOfSingle = (first, width) => single.slice(first, first + width).reduce((a, b) => a + b, 0);
  return ngrams
    .filter(({ idf, first, width }) => width > 1 && idf && allowed(first, width))
    .map(({ idf, first, width }) =>
      ({ first, width, association: ((sumOfSingle(first, width) - idf) * step) / (width - 1) - 1 }))
    .filter(({ association }) => association > 0)
    .sort((a, b) => b.association - a.association || a.first - b.first || a.width - b.width);
}

/** Contribution of each word to the n-gram model's logits, and their bias: {contributions (C)(T), base (C)}. */
export function ngramContributions({ blocks, tensors }, words) {
  const bias = Array.from(tensors.bias.values);
  const scores = bias.map(() => new Float64Array(words.length)); // (rows)(T)
  blocks.forEach((spec, number) => addBlock(scores, spec, name => tensors[`${number}.${name}`], words));
  const power = tensors.range_power?.values[0];
  if (power) divideByRange(scores, power);
  return { contributions: perClass(scores, row => row.map(value => -value / 2), row => row.map(value => value / 2)),
    base: perClass(bias, value => -value / 2, value => value / 2) };
}

/** Divide the contributions (rows)(T) by a power of the largest minus the mean of their sums. */
function divideByRange(scores, power) {
  const sums = scores.map(row => row.reduce((a, b) => a + b, 0));
  const mean = sums.reduce((a, b) => a + b, 0) / sums.length;
  const divisor = Math.max(sums.reduce((a, b) => Math.max(a, b)) - mean, 1e-12) ** power;
  for (const row of scores) for (let t = 0; t < row.length; t++) row[t] /= divisor;
}

/** An n-gram's value is (1 + ln tf)·idf divided by the norm over all; the words it covers share its weight. */
function addBlock(scores, spec, tensor, words) {
  const ngrams = ngramsOf(words, spec), counts = countNgrams(words, spec);
  const keys = tensor("keys").values, idf = tensor("idf").values, step = tensor("idf_step").values[0];
  const values = new Map();
  let squares = 0;
  for (const [key, count] of counts) {
    const column = indexOfKey(keys, key);
    if (column < 0) continue;
    const value = (1 + Math.log(count)) * idf[column] * step;
    values.set(key, { column, perOccurrence: value / count });
    squares += value * value;
  }
  const norm = Math.max(Math.sqrt(squares), 1e-12);
  const { values: weights, shape: [rows, columns] } = tensor("weights"), steps = tensor("steps").values;
  for (const { key, first, width } of ngrams) {
    const ngram = values.get(key);
    if (!ngram) continue;
    for (let row = 0; row < rows; row++) {
      const share = (weights[row * columns + ngram.column] * steps[row] * ngram.perOccurrence) / norm / width;
      for (let t = first; t < first + width; t++) scores[row][t] += share;
    }
  }
}

/** One row per class: a model of two classes stores a single row, which becomes two opposite ones. */
function perClass(rows, negative, positive) {
  return rows.length > 1 ? rows : [negative(rows[0]), positive(rows[0])];
}
