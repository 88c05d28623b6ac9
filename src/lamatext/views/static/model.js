// A saved model that classifies and explains one text at a time, like lamatext's Predictor.

import { addLabelNoise, sigmoids, softmax, sum } from "./arrays.js";
import { contributions, groupCharacters, occlusion, windowSize } from "./explain.js";
import { classifierLayers, forward } from "./network.js";
import { OUTLIER, evidenceOf, outlierScore } from "./outliers.js";
import { Encoder } from "./tokens.js";
import { ModelError, checkNetwork, dequantize, readTensors } from "./weights.js";
import { checkNgrams, ngramContributions } from "./ngrams.js";

export class Model {
  /** `weights` and `ngrams` are the bytes of model.safetensors and, if it exists, ngrams.safetensors. */
  constructor(description, weights, ngrams = null) {
    this.name = description.name;
    this.labels = description.labels;
    this.threshold = description.threshold;
    this.evidence = description.evidence; // quantiles of the validation texts, or null
    this.thresholds = description.thresholds ?? null; // one per label if a text may have several
    this.labelNoise = description.labelNoise ?? 0; // share of wrong labels that the probabilities allow for
    this.privacyNote = description.privacyNote;
    this.encoder = new Encoder(description.words, description.text);
    const tensors = readTensors(weights);
    checkNetwork(tensors, description.shapes);
    this.network = { settings: description.settings, tensors: dequantize(tensors) };
    // Training gives the network weight 0 if it does not help: the n-grams then decide alone.
    this.isByNgramsAlone = Boolean(ngrams) && !classifierLayers(this.network.tensors).w2.data.some(Boolean);
    this.heads = this.isByNgramsAlone ? 0 : headCount(this.network);
    this.parts = ngrams && !this.isByNgramsAlone ? ["network", "n-grams"] : [];
    this.ngrams = ngrams && { blocks: description.ngrams, tensors: readTensors(ngrams) };
    const rows = this.labels.length === 2 && !this.thresholds ? 1 : this.labels.length; // two classes share one
    if (ngrams) checkNgrams(this.ngrams.tensors, description.ngrams, rows);
  }

  /** The probability of each class. */
  async predict(text) {
    const { words, ids } = this.encoder.encode(text);
    const logits = Array.from(forward(this.network, ids).logits);
    checkFinite(logits);
    if (this.ngrams) {
      const ngrams = ngramContributions(this.ngrams, words);
      logits.forEach((_, c) => { logits[c] += ngrams.base[c] + sum(ngrams.contributions[c]); });
    }
    return this.probabilities(logits);
  }

  probabilities(logits) {
    return Array.from(this.thresholds ? sigmoids(logits) : addLabelNoise(softmax(logits), this.labelNoise));
  }

  /** Explain the class of `text`: the fields of lamatext's Explanation, with spans in UTF-16 units. */
  async explain(text, pause) {
    const encoded = this.encoder.encode(text);
    const output = forward(this.network, encoded.ids);
    const { logits } = output, weights = this.isByNgramsAlone ? null : output.weights;
    const isExact = this.isByNgramsAlone || Boolean(weights);
    const scores = this.isByNgramsAlone ? Array.from(logits, () => new Float64Array(encoded.ids.length))
      : weights ? contributions(this.network.tensors, output)
        : await occlusion(this.network, encoded.ids, logits, pause);
    [logits, ...scores].forEach(checkFinite);
    const explanation = {
      text,
      labels: this.labels,
      thresholds: this.thresholds,
      spans: encoded.indices.length ? encoded.indices.map(index => encoded.spans[index]) : [[0, 0]],
      weights: weights && weights.toRows(),
      contributions: scores.map(row => Array.from(row)),
      base: scores.map((row, c) => logits[c] - sum(row)),
      method: isExact ? "contribution" : "occlusion",
      window: isExact ? 1 : windowSize(encoded.ids.length),
    };
    const both = this.ngrams ? addNgrams(this.ngrams, explanation, encoded, this.isByNgramsAlone) : explanation;
    const total = both.contributions.map((row, c) => sum(row) + both.base[c]);
    const complete = withDerivedFields({ ...both, probabilities: this.probabilities(total) });
    return { ...complete, ...this.assess(complete, encoded, logits) };
  }

  /** Whether the model is unsure of a text, and how unusual it finds it, as far as it can say so. */
  assess({ probabilities, contributions, parts }, { words }, network) {
    const fields = {};
    if (this.threshold != null) fields.unsure = Math.max(...probabilities) < this.threshold;
    if (this.evidence) {
      const known = words.length ? this.encoder.countKnown(words) / words.length : 0;
      const base = this.ngrams && ngramContributions(this.ngrams, []).base;
      const grams = parts?.["n-grams"] ?? contributions;
      const ngrams = base && grams.map((row, c) => base[c] + sum(row));
      fields.outlier_score = outlierScore(evidenceOf(network, ngrams, base, known), this.evidence);
      fields.outlier = fields.outlier_score >= OUTLIER;
    }
    return fields;
  }
}

/** Throw a ModelError if an output is not finite: weights within their limits can overflow together. */
function checkFinite(outputs) {
  if (!outputs.every(Number.isFinite)) {
    throw new ModelError("The weights of this model are so large that a result is not a number. Train the model again.");
  }
}

/** The number of rows in the network's attention weights. */
function headCount({ settings }) {
  if (["bigru", "cnn", "avg"].includes(settings.name)) return 0;
  return settings.name === "bilinear" ? 1 : settings.heads;
}

/** Add the n-gram model's contributions. It reads every word of the text; words that the network
 *  did not read get attention and network contribution 0. */
function addNgrams(ngrams, explanation, { spans, words, indices }, isByNgramsAlone) {
  const { contributions: scores, base } = ngramContributions(ngrams, words);
  const [allSpans, read] = words.length ? [spans, indices] : [explanation.spans, [0]]; // no word: the network's empty one
  const spread = row => {
    const wide = new Array(allSpans.length).fill(0);
    read.forEach((index, t) => { wide[index] = row[t]; });
    return wide;
  };
  const network = explanation.contributions.map(spread);
  const grams = scores.map(row => allSpans.map((_, t) => row[t] ?? 0));
  const unread = read.length ? 0 : 1; // the network read one unknown word, which is no word of the text
  const total = {
    ...explanation,
    spans: allSpans,
    weights: explanation.weights && explanation.weights.map(spread),
    contributions: network.map((row, c) => row.map((value, t) => value + grams[c][t])),
    base: explanation.base.map((value, c) => value + base[c] + unread * sum(explanation.contributions[c])),
    parts: isByNgramsAlone ? undefined : { network, "n-grams": grams },
  };
  return groupCharacters(total, ngrams, words);
}

/** Add the derived fields; `relative` values are contributions minus their mean over classes, or the
 *  contributions themselves if the labels are independent of each other. */
export function withDerivedFields(explanation) {
  const { contributions: scores, base, weights, parts = { network: scores }, thresholds } = explanation;
  const relative = thresholds ? rows => rows : minusMean;
  return {
    ...explanation,
    relative: relative(scores),
    relativeBase: thresholds ? base : base.map(value => value - sum(base) / base.length),
    relativeParts: Object.fromEntries(Object.entries(parts).map(([name, rows]) => [name, relative(rows)])),
    pooled: weights && meanOverRows(weights),
  };
}

const minusMean = rows => {
  const mean = meanOverRows(rows);
  return rows.map(row => row.map((value, t) => value - mean[t]));
};

const meanOverRows = rows => rows[0].map((_, t) => sum(rows.map(row => row[t])) / rows.length);
