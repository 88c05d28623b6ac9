// Contribution of each word of a text to the logit of each class, like lamatext.explain.

import { Matrix, dot, linear } from "./arrays.js";
import { classifierLayers, forward } from "./network.js";
import { associatedWords } from "./ngrams.js";
import { UNKNOWN, unspacedScript } from "./tokens.js";

const MAX_FORWARD_PASSES = 256; // per text

/** Σⱼ αⱼₜ hₜ·∂logit_c/∂sⱼ: (C)(T). The classifier is piecewise linear, so only a constant remains. */
export function contributions(tensors, { embedding, weights, states }) {
  const gradient = logitGradient(tensors, embedding); // (C, M * D)
  const width = states.columns;
  return Array.from({ length: gradient.rows }, (_, c) => {
    const slopes = gradient.row(c), scores = new Float64Array(states.rows);
    for (let t = 0; t < states.rows; t++) {
      for (let j = 0; j < weights.rows; j++) {
        scores[t] += weights.data[j * states.rows + t] * dot(slopes, j * width, states.data, t * width, width);
      }
    }
    return scores;
  });
}

/** ∂logit_c/∂s: W₂ without the hidden units that are inactive for this text, times W₁: (C, M * D). */
function logitGradient(tensors, embedding) {
  const { w1, b1, w2 } = classifierLayers(tensors);
  if (!w1) return w2;
  const hidden = linear(new Matrix(1, embedding.data.length, embedding.data), w1, b1).data;
  const gradient = new Matrix(w2.rows, w1.columns);
  for (let c = 0; c < w2.rows; c++) {
    const slopes = gradient.row(c);
    for (let k = 0; k < w1.rows; k++) {
      if (hidden[k] <= 0) continue;
      const factor = w2.data[c * w2.columns + k], row = w1.row(k);
      for (let i = 0; i < slopes.length; i++) slopes[i] += factor * row[i];
    }
  }
  return gradient;
}

/** How many neighbouring words occlusion leaves out together in a text of `length` words. */
export const windowSize = length => Math.ceil(length / MAX_FORWARD_PASSES);

/** For systems without attention: logit_c(text) − logit_c(text without word t): (C)(T).
 *  Awaits `pause` before each forward pass; it may stop the computation by throwing. */
export async function occlusion(network, ids, logits, pause = async () => {}) {
  const size = windowSize(ids.length);
  const scores = Array.from(logits, () => new Float64Array(ids.length));
  for (let start = 0; start < ids.length; start += size) {
    await pause();
    const end = Math.min(start + size, ids.length);
    const rest = [...ids.slice(0, start), ...ids.slice(end)];
    const without = forward(network, rest.length ? rest : [UNKNOWN]).logits;
    scores.forEach((row, c) => row.fill((logits[c] - without[c]) / (end - start), start, end));
  }
  return scores;
}

const MAX_CHARACTERS = 8; // in a unit
const LEADING_VOWELS = "เแโใไເແໂໃໄ";
const FOLLOWING = "ะาำๅๆฯະາຳໆຯ"; // vowels and marks behind their consonant, with a width of their own
const ASAT = "\u103a"; // the Burmese mark of a final consonant

/** Group the characters of scripts without spaces into readable units, like
 *  lamatext.explain.character_groups. */
export function groupCharacters(explanation, ngrams, words) {
  const scripts = words.map(unspacedScript), { spans } = explanation;
  if (!scripts.some(Boolean)) return explanation;
  const joins = t => spans[t][1] === spans[t + 1][0] && !LEADING_VOWELS.includes(words[t + 1][0]); // t + 1 joins t
  const mustJoin = t => t > 0 && joins(t - 1) && scripts[t - 1] &&
    (FOLLOWING.includes(words[t][0]) || words[t].includes(ASAT));
  const range = (first, width) => Array.from({ length: width }, (_, i) => first + i);
  const units = new Array(words.length).fill(null);
  const allowed = (first, width) => !mustJoin(first) && range(first, width).every((t, i) =>
    scripts[t] && scripts[t] !== "katakana" && (i === width - 1 || joins(t)));
  for (const { first, width } of associatedWords(ngrams, words, allowed)) {
    if (range(first, width).every(t => units[t] === null)) units.fill(first, first, first + width);
  }
  const starts = [0];
  for (let t = 1; t < words.length; t++) {
    const inUnit = units[t] !== null && units[t] === units[t - 1];
    const inRun = units[t] === null && scripts[t] === scripts[t - 1] && ["letters", "katakana"].includes(scripts[t]);
    const afterVowel = starts.at(-1) === t - 1 && LEADING_VOWELS.includes(words[t - 1]) && scripts[t];
    const fits = t - starts.at(-1) < MAX_CHARACTERS;
    const mayJoin = inUnit || (fits && (inRun || afterVowel));
    if (!(mustJoin(t) || (joins(t - 1) && mayJoin))) starts.push(t);
  }
  const ends = [...starts.slice(1), words.length];
  const sums = row => starts.map((start, i) => row.slice(start, ends[i]).reduce((a, b) => a + b, 0));
  const merge = rows => rows.map(sums);
  return {
    ...explanation,
    spans: starts.map((start, i) => [spans[start][0], spans[ends[i] - 1][1]]),
    weights: explanation.weights && merge(explanation.weights),
    contributions: merge(explanation.contributions),
    parts: explanation.parts &&
      Object.fromEntries(Object.entries(explanation.parts).map(([name, rows]) => [name, merge(rows)])),
  };
}
