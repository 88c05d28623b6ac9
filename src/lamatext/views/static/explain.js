// Contribution of each word of a text to the logit of each class, like lamatext.explain.

import { Matrix, dot, linear } from "./arrays.js";
import { classifierLayers, forward } from "./network.js";
import { UNKNOWN } from "./tokens.js";

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
