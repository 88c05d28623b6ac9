// Word ids in, logits out: the equations of lamatext.nn for one text.
// Shapes: T words, E embedding width, D state width, M heads, k rank, C classes.

import { Matrix, dot, linear, map, maxRow, meanRow, softmax, take, transpose } from "./arrays.js";

/** What a network says of the words `ids`: {logits (C), embedding (M, D), weights (M, T), states}. */
export function run(network, ids) {
  const { settings, tensors } = network;
  const embedded = take(tensors["embedding.weight"], ids); // (T, E)
  const states = encode(tensors, embedded); // (T, D)
  const { embedding, weights } = pool(settings, tensors, states, embedded);
  return { logits: classify(tensors, embedding), embedding, weights, states };
}

function encode(tensors, embedded) {
  if ("encoder.gru.weight_hh_l0" in tensors) return recur(tensors, embedded);
  if ("encoder.windows.0.weight" in tensors) return convolve(tensors, embedded);
  return embedded;
}

/** The bi-GRU: the state that read up to word t beside the one that read down to it. */
function recur(tensors, embedded) {
  const part = (name, end) => tensors[`encoder.gru.${name}_l0${end}`];
  const width = part("weight_hh", "").columns;
  const states = new Matrix(embedded.rows, 2 * width);
  for (const [side, end] of ["", "_reverse"].entries()) {
    const inputs = linear(embedded, part("weight_ih", end), part("bias_ih", end).data); // (T, 3h)
    let h = new Matrix(1, width);
    for (let step = 0; step < embedded.rows; step++) {
      const t = side === 0 ? step : embedded.rows - 1 - step;
      h = gru(inputs.row(t), linear(h, part("weight_hh", end), part("bias_hh", end).data).data, h);
      states.row(t).set(h.data, side * width);
    }
  }
  return states;
}

/** r = σ(xᵣ + uᵣ), z = σ(x_z + u_z), n = tanh(xₙ + r∘uₙ), h ← (1 − z)∘n + z∘h, with u = U h + c. */
function gru(x, u, h) {
  const width = h.columns, next = new Matrix(1, width);
  for (let i = 0, j = width, k = 2 * width; i < width; i++, j++, k++) {
    const r = sigmoid(x[i] + u[i]);
    const z = sigmoid(x[j] + u[j]);
    const n = Math.tanh(x[k] + r * u[k]);
    next.data[i] = (1 - z) * n + z * h.data[i];
  }
  return next;
}

const sigmoid = x => 1 / (1 + Math.exp(-x));

/** Filters over windows of words, ReLU; zeros stand before the first word and after the last. */
function convolve(tensors, embedded) {
  const maps = [];
  for (let n = 0; `encoder.windows.${n}.weight` in tensors; n++) {
    const filters = tensors[`encoder.windows.${n}.weight`]; // (filters, E * size)
    const size = filters.shape[2];
    const windows = windowsOf(embedded, size); // (T, E * size)
    maps.push(map(linear(windows, filters, tensors[`encoder.windows.${n}.bias`].data), relu));
  }
  return besideEachOther(maps);
}

function windowsOf(embedded, size) {
  const { rows, columns } = embedded, before = Math.floor((size - 1) / 2);
  const out = new Matrix(rows, columns * size);
  for (let t = 0; t < rows; t++) {
    for (let j = 0; j < size; j++) {
      const from = t - before + j;
      if (from < 0 || from >= rows) continue;
      const word = embedded.row(from), window = out.row(t);
      for (let e = 0; e < columns; e++) window[e * size + j] = word[e];
    }
  }
  return out;
}

function besideEachOther(parts) {
  const out = new Matrix(parts[0].rows, parts.reduce((sum, part) => sum + part.columns, 0));
  for (let t = 0; t < out.rows; t++) {
    let at = 0;
    for (const part of parts) {
      out.row(t).set(part.row(t), at);
      at += part.columns;
    }
  }
  return out;
}

const relu = x => Math.max(x, 0);

/** The embedding S of the text, and the weights A of its words where the system has attention. */
function pool(settings, tensors, states, embedded) {
  if (settings.name === "avg") return { embedding: meanRow(states), weights: null };
  if (settings.name === "bigru" || settings.name === "cnn") {
    return { embedding: maxRow(states), weights: null };
  }
  const part = name => tensors["pooling." + name];
  const scores = transpose(SCORES[settings.name]?.(settings, part, states, embedded)
    ?? lowRankScores(settings, part, states, embedded)); // (M, T)
  const weights = new Matrix(scores.rows, scores.columns);
  for (let i = 0; i < scores.rows; i++) weights.row(i).set(softmax(scores.row(i)));
  const heads = linear(weights, transpose(states)); // S = A H: (M, D)
  return { embedding: heads, weights };
}

const SCORES = {
  /** cᵀ W uₜ: (T, 1). */
  bilinear: (settings, part, states, embedded) =>
    linear(scored(settings, part, states), linear(meanRow(embedded), transpose(part("weight")))),
  /** W₂ tanh(W₁ hₜ): (T, M). */
  san: (settings, part, states) =>
    linear(map(linear(states, part("w1.weight")), Math.tanh), part("w2.weight")),
};

/** fₜᵢ = 1ᵀ(Pᵢᵀc ∘ Qᵢᵀuₜ), then tanh, l2 over the heads, temperature: (T, M). */
function lowRankScores(settings, part, states, embedded) {
  const { heads, rank } = settings;
  const query = linear(part("context") ?? meanRow(embedded), part("p.weight")).data; // (M * k)
  const keys = linear(scored(settings, part, states), part("q.weight")); // (T, M * k)
  const scores = new Matrix(states.rows, heads);
  for (let t = 0; t < states.rows; t++) {
    const f = scores.row(t), key = keys.row(t);
    for (let i = 0; i < heads; i++) f[i] = dot(query, i * rank, key, i * rank, rank);
    if (settings.score_tanh) f.forEach((value, i) => { f[i] = Math.tanh(value); });
    const norm = settings.score_l2 ? Math.hypot(...f) || 1 : 1;
    const temperatures = part("log_temperature")?.data;
    f.forEach((value, i) => { f[i] = (value / norm) * (temperatures ? Math.exp(temperatures[i]) : 1); });
  }
  return scores;
}

/** uₜ = tanh(W hₜ + b), or the states themselves: (T, D). */
function scored(settings, part, states) {
  if (settings.score_input === "states") return states;
  return map(linear(states, part("project.weight"), part("project.bias").data), Math.tanh);
}

/** W₂ relu(W₁ s + b₁) + b₂ of the flattened embedding, or one linear layer: (C). */
function classify(tensors, embedding) {
  const flat = new Matrix(1, embedding.data.length, embedding.data);
  const { w1, b1, w2, b2 } = classifierOf(tensors);
  const hidden = w1 ? map(linear(flat, w1, b1), relu) : flat;
  return linear(hidden, w2, b2).data;
}

/** The classifier's tensors; w1 and b1 are missing where it is one linear layer. */
export function classifierOf(tensors) {
  const w1 = tensors["classifier.0.weight"], last = w1 ? 3 : 1;
  return {
    w1,
    b1: tensors["classifier.0.bias"]?.data,
    w2: tensors[`classifier.${last}.weight`],
    b2: tensors[`classifier.${last}.bias`].data,
  };
}
