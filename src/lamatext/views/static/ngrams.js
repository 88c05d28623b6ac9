// The n-gram model: a linear model on n-grams, as lamatext.runtime.ngrams and lamatext.data.ngrams have it.
// An n-gram is known by a 32-bit key; Math.imul and >>> 0 keep all sums modulo 2³².

const BASE = 2654435761 | 0, STEP = 0x9e3779b9 | 0;
const OPEN = 2, CLOSE = 3; // the marks around a word

/** Scatter the bits of h evenly. */
function mix(h) {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const framed = word => [OPEN, ...Array.from(word, character => character.codePointAt(0)), CLOSE];

/** Every run of 1 to `longest` words: {key, first, width}. */
function runsOfWords(words, longest) {
  const hashes = words.map(word => mix(framed(word).reduceRight((h, c) => (Math.imul(h, BASE) + c) | 0, 0)));
  const found = [];
  for (let first = 0; first < words.length; first++) {
    let rolled = 0;
    for (let width = 1; width <= longest && first + width <= words.length; width++) {
      rolled = (Math.imul(rolled, BASE) + hashes[first + width - 1]) | 0;
      found.push({ key: width === 1 ? hashes[first] : mix(rolled), first, width });
    }
  }
  return found;
}

/** Every run of `shortest` to `longest` characters inside each framed word. */
function runsOfCharacters(words, [shortest, longest]) {
  const found = [];
  words.forEach((word, first) => {
    const points = framed(word);
    for (let from = 0; from < points.length; from++) {
      let rolled = 0;
      for (let n = 1; n <= longest && from + n <= points.length; n++) {
        rolled = (Math.imul(rolled, BASE) + points[from + n - 1]) | 0;
        if (n >= shortest) found.push({ key: mix((rolled + Math.imul(n, STEP)) | 0), first, width: 1 });
      }
    }
  });
  return found;
}

/** Where `key` stands in ascending keys, or -1. */
function find(keys, key) {
  let low = 0, high = keys.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (keys[middle] === key) return middle;
    if (keys[middle] < key) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** What the words add to the logits, class by class, and a constant: {contributions (C)(T), base (C)}. */
export function ngramContributions({ blocks, tensors }, words) {
  const bias = Array.from(tensors.bias.values);
  const total = bias.map(() => new Float64Array(words.length)); // (rows)(T)
  blocks.forEach((spec, number) => addBlock(total, spec, name => tensors[`${number}.${name}`], words));
  return { contributions: both(total, row => row.map(value => -value / 2), row => row.map(value => value / 2)),
    base: both(bias, value => -value / 2, value => value / 2) };
}

/** Each n-gram has the value (1 + ln tf)·idf over the norm of all; the words it covers share it. */
function addBlock(total, spec, part, words) {
  const runs = spec.characters ? runsOfCharacters(words, spec.characters) : runsOfWords(words, spec.words);
  const counts = new Map();
  for (const { key } of runs) counts.set(key, (counts.get(key) ?? 0) + 1);
  const keys = part("keys").values, idf = part("idf").values, step = part("idf_step").values[0];
  const values = new Map();
  let squares = 0;
  for (const [key, count] of counts) {
    const place = find(keys, key);
    if (place < 0) continue;
    const value = (1 + Math.log(count)) * idf[place] * step;
    values.set(key, { place, each: value / count });
    squares += value * value;
  }
  const norm = Math.max(Math.sqrt(squares), 1e-12);
  const { values: weights, shape: [rows, columns] } = part("weights"), steps = part("steps").values;
  for (const { key, first, width } of runs) {
    const known = values.get(key);
    if (!known) continue;
    for (let row = 0; row < rows; row++) {
      const share = (weights[row * columns + known.place] * steps[row] * known.each) / norm / width;
      for (let t = first; t < first + width; t++) total[row][t] += share;
    }
  }
}

/** One row that tells two classes apart becomes two that are opposite. */
function both(rows, negative, positive) {
  return rows.length > 1 ? rows : [negative(rows[0]), positive(rows[0])];
}
