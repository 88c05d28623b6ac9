// A saved model at work on one text at a time: what lamatext's Predictor.explain says.

import { softmax, sum } from "./arrays.js";
import { contributions, occlusion, windowOf } from "./explain.js";
import { run } from "./network.js";
import { Reader } from "./tokens.js";
import { readTensors, restored } from "./weights.js";
import { ngramContributions } from "./ngrams.js";

export class Model {
  /** `weights` and `ngrams` are the bytes of model.safetensors and, if there is one, ngrams.safetensors. */
  constructor(description, weights, ngrams = null) {
    this.name = description.name;
    this.labels = description.labels;
    this.where = description.where;
    this.reader = new Reader(description.words, description.text);
    this.network = { settings: description.settings, tensors: restored(readTensors(weights)) };
    this.heads = headsOf(this.network);
    this.parts = ngrams ? ["network", "n-grams"] : [];
    this.ngrams = ngrams && { blocks: description.ngrams, tensors: readTensors(ngrams) };
  }

  /** The probability of each class. */
  async predict(text) {
    const { words, ids } = this.reader.read(text);
    const logits = Array.from(run(this.network, ids).logits);
    if (this.ngrams) {
      const beside = ngramContributions(this.ngrams, words);
      logits.forEach((_, c) => { logits[c] += beside.base[c] + sum(beside.contributions[c]); });
    }
    return Array.from(softmax(logits));
  }

  /** Why `text` gets its class: the fields of lamatext's Explanation, spans in UTF-16 units. */
  async explain(text, pause) {
    const read = this.reader.read(text);
    const reading = run(this.network, read.ids);
    const { weights, logits } = reading;
    const found = weights
      ? contributions(this.network.tensors, reading)
      : await occlusion(this.network, read.ids, logits, pause);
    const explanation = {
      text,
      labels: this.labels,
      spans: read.places.length ? read.places.map(place => read.spans[place]) : [[0, 0]],
      weights: weights && weights.toRows(),
      contributions: found.map(row => Array.from(row)),
      base: found.map((row, c) => logits[c] - sum(row)),
      method: weights ? "contribution" : "occlusion",
      window: weights ? 1 : windowOf(read.ids.length),
    };
    return withProbabilities(this.ngrams ? beside(this.ngrams, explanation, read) : explanation);
  }
}

/** How many rows of weights the network gives. */
function headsOf({ settings }) {
  if (["bigru", "cnn", "avg"].includes(settings.name)) return 0;
  return settings.name === "bilinear" ? 1 : settings.heads;
}

/** The n-gram model reads every word of the text; what the network did not read has no weight there. */
function beside(ngrams, explanation, { spans, words, places }) {
  const found = ngramContributions(ngrams, words);
  const [all, read] = words.length ? [spans, places] : [explanation.spans, [0]]; // no word: the network's empty one
  const spread = row => {
    const wider = new Array(all.length).fill(0);
    read.forEach((place, t) => { wider[place] = row[t]; });
    return wider;
  };
  const network = explanation.contributions.map(spread);
  const grams = found.contributions.map(row => all.map((_, t) => row[t] ?? 0));
  const lost = read.length ? 0 : 1; // the network read one unknown word, which is none of these
  return {
    ...explanation,
    spans: all,
    weights: explanation.weights && explanation.weights.map(spread),
    contributions: network.map((row, c) => row.map((value, t) => value + grams[c][t])),
    base: explanation.base.map((value, c) => value + found.base[c] + lost * sum(explanation.contributions[c])),
    parts: { network, "n-grams": grams },
  };
}

/** The explanation with all that follows from it; `relative` is less the mean over the classes. */
export function withProbabilities(explanation) {
  const { contributions: found, base, weights, parts = { network: found } } = explanation;
  return {
    ...explanation,
    probabilities: Array.from(softmax(found.map((row, c) => sum(row) + base[c]))),
    relative: lessMean(found),
    relativeBase: base.map(value => value - sum(base) / base.length),
    relativeParts: Object.fromEntries(Object.entries(parts).map(([name, rows]) => [name, lessMean(rows)])),
    pooled: weights && meanOf(weights),
  };
}

const lessMean = rows => {
  const mean = meanOf(rows);
  return rows.map(row => row.map((value, t) => value - mean[t]));
};

const meanOf = rows => rows[0].map((_, t) => sum(rows.map(row => row[t])) / rows.length);
