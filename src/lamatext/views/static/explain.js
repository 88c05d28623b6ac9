// How much each word of a text adds to the logit of each class: lamatext.explain for one text.

import { Matrix, dot, linear } from "./arrays.js";
import { classifierOf, run } from "./network.js";
import { UNKNOWN } from "./tokens.js";

const MOST = 256; // versions of a text that are read, at most

/** Σⱼ αⱼₜ hₜ·∂logit_c/∂sⱼ: (C)(T). The classifier is piecewise linear, so nothing is left but a constant. */
export function contributions(tensors, { embedding, weights, states }) {
  const gradient = gradientOf(tensors, embedding); // (C, M * D)
  const width = states.columns;
  return Array.from({ length: gradient.rows }, (_, c) => {
    const slopes = gradient.row(c), total = new Float64Array(states.rows);
    for (let t = 0; t < states.rows; t++) {
      for (let j = 0; j < weights.rows; j++) {
        total[t] += weights.data[j * states.rows + t] * dot(slopes, j * width, states.data, t * width, width);
      }
    }
    if (embedding.rows > weights.rows) addMaximum(total, states, slopes.subarray(weights.rows * width));
    return total;
  });
}

/** In the row of the maximum a dimension counts for the word that has it. */
function addMaximum(total, states, slopes) {
  for (let d = 0; d < states.columns; d++) {
    let winner = 0;
    for (let t = 1; t < states.rows; t++) {
      if (states.data[t * states.columns + d] > states.data[winner * states.columns + d]) winner = t;
    }
    total[winner] += slopes[d] * states.data[winner * states.columns + d];
  }
}

/** ∂logit_c/∂s: W₂ without the hidden units that are shut here, times W₁: (C, M * D). */
function gradientOf(tensors, embedding) {
  const { w1, b1, w2 } = classifierOf(tensors);
  if (!w1) return w2;
  const hidden = linear(new Matrix(1, embedding.data.length, embedding.data), w1, b1).data;
  const out = new Matrix(w2.rows, w1.columns);
  for (let c = 0; c < w2.rows; c++) {
    const slopes = out.row(c);
    for (let k = 0; k < w1.rows; k++) {
      if (hidden[k] <= 0) continue;
      const factor = w2.data[c * w2.columns + k], row = w1.row(k);
      for (let i = 0; i < slopes.length; i++) slopes[i] += factor * row[i];
    }
  }
  return out;
}

/** How many neighbouring words are left out together in a text of `words` words. */
export const windowOf = words => Math.ceil(words / MOST);

/** For systems without attention: logit_c(text) − logit_c(text without word t): (C)(T).
 *  Between two versions of the text it awaits `pause`, which may end the work by throwing. */
export async function occlusion(network, ids, logits, pause = async () => {}) {
  const size = windowOf(ids.length);
  const found = Array.from(logits, () => new Float64Array(ids.length));
  for (let start = 0; start < ids.length; start += size) {
    await pause();
    const end = Math.min(start + size, ids.length);
    const kept = [...ids.slice(0, start), ...ids.slice(end)];
    const without = run(network, kept.length ? kept : [UNKNOWN]).logits;
    found.forEach((row, c) => row.fill((logits[c] - without[c]) / (end - start), start, end));
  }
  return found;
}
