// The forward pass of the network for one text: token ids to logits, like lamatext.nn.
// Shapes: T words, E embedding width, D state width, M heads, k rank, C classes.

import { Matrix, dot, linear, map, maxRow, meanRow, softmax, take, transpose } from "./arrays.js";

/** Run the network on token ids: {logits (C), embedding (M, D), weights (M, T), states (T, D)}. */
export function forward(network, ids) {
  const { settings, tensors } = network;
  const embedded = take(tensors["embedding.weight"], ids); // (T, E)
  const states = encode(tensors, embedded); // (T, D)
  const { embedding, weights } = pool(settings, tensors, states, embedded);
  return { logits: classify(tensors, embedding), embedding, weights, states };
}

function encode(tensors, embedded) {
  if ("encoder.gru.weight_hh_l0" in tensors) return biGru(tensors, embedded);
  if ("encoder.windows.0.weight" in tensors) return convolve(tensors, embedded);
  return embedded;
}

/** Bidirectional GRU: forward and backward state of each word, concatenated. */
function biGru(tensors, embedded) {
  const tensor = (name, suffix) => tensors[`encoder.gru.${name}_l0${suffix}`];
  const width = tensor("weight_hh", "").columns;
  const states = new Matrix(embedded.rows, 2 * width);
  for (const [direction, suffix] of ["", "_reverse"].entries()) {
    const inputs = linear(embedded, tensor("weight_ih", suffix), tensor("bias_ih", suffix).data); // (T, 3h)
    let h = new Matrix(1, width);
    for (let step = 0; step < embedded.rows; step++) {
      const t = direction === 0 ? step : embedded.rows - 1 - step;
      h = gruStep(inputs.row(t), linear(h, tensor("weight_hh", suffix), tensor("bias_hh", suffix).data).data, h);
      states.row(t).set(h.data, direction * width);
    }
  }
  return states;
}

/** r = σ(xᵣ + uᵣ), z = σ(x_z + u_z), n = tanh(xₙ + r∘uₙ), h ← (1 − z)∘n + z∘h, with u = U h + c. */
function gruStep(x, u, h) {
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

/** Convolution over windows of words with ReLU; the text is padded with zeros on both sides. */
function convolve(tensors, embedded) {
  const maps = [];
  for (let n = 0; `encoder.windows.${n}.weight` in tensors; n++) {
    const filters = tensors[`encoder.windows.${n}.weight`]; // (filters, E * size)
    const size = filters.shape[2];
    const windows = windowsOf(embedded, size); // (T, E * size)
    maps.push(map(linear(windows, filters, tensors[`encoder.windows.${n}.bias`].data), relu));
  }
  return concatenateColumns(maps);
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

function concatenateColumns(matrices) {
  const out = new Matrix(matrices[0].rows, matrices.reduce((sum, matrix) => sum + matrix.columns, 0));
  for (let t = 0; t < out.rows; t++) {
    let column = 0;
    for (const matrix of matrices) {
      out.row(t).set(matrix.row(t), column);
      column += matrix.columns;
    }
  }
  return out;
}

const relu = x => Math.max(x, 0);

/** The text embedding S, and the attention weights A of systems with attention. */
function pool(settings, tensors, states, embedded) {
  if (settings.name === "avg") return { embedding: meanRow(states), weights: null };
  if (settings.name === "bigru" || settings.name === "cnn") {
    return { embedding: maxRow(states), weights: null };
  }
  const tensor = name => tensors["pooling." + name];
  const scores = transpose(SCORES[settings.name]?.(settings, tensor, states, embedded)
    ?? lowRankScores(settings, tensor, states, embedded)); // (M, T)
  const weights = new Matrix(scores.rows, scores.columns);
  for (let i = 0; i < scores.rows; i++) weights.row(i).set(softmax(scores.row(i)));
  const embedding = linear(weights, transpose(states)); // S = A H: (M, D)
  return { embedding, weights };
}

const SCORES = {
  /** cᵀ W uₜ: (T, 1). */
  bilinear: (settings, tensor, states, embedded) =>
    linear(scoreInput(settings, tensor, states), linear(meanRow(embedded), transpose(tensor("weight")))),
  /** W₂ tanh(W₁ hₜ): (T, M). */
  san: (settings, tensor, states) =>
    linear(map(linear(states, tensor("w1.weight")), Math.tanh), tensor("w2.weight")),
};

/** fₜᵢ = 1ᵀ(Pᵢᵀc ∘ Qᵢᵀuₜ), then tanh, l2 over the heads, temperature: (T, M). */
function lowRankScores(settings, tensor, states, embedded) {
  const { heads, rank } = settings;
  const query = linear(tensor("context") ?? meanRow(embedded), tensor("p.weight")).data; // (M * k)
  const keys = linear(scoreInput(settings, tensor, states), tensor("q.weight")); // (T, M * k)
  const scores = new Matrix(states.rows, heads);
  for (let t = 0; t < states.rows; t++) {
    const f = scores.row(t), key = keys.row(t);
    for (let i = 0; i < heads; i++) f[i] = dot(query, i * rank, key, i * rank, rank);
    if (settings.score_tanh) f.forEach((value, i) => { f[i] = Math.tanh(value); });
    const norm = settings.score_l2 ? Math.max(Math.hypot(...f), 1e-12) : 1; // as in the ONNX graph
    const temperatures = tensor("log_temperature")?.data;
    f.forEach((value, i) => { f[i] = (value / norm) * (temperatures ? Math.exp(temperatures[i]) : 1); });
  }
  return scores;
}

/** uₜ = tanh(W hₜ + b), or the states themselves: (T, D). */
function scoreInput(settings, tensor, states) {
  if (settings.score_input === "states") return states;
  return map(linear(states, tensor("project.weight"), tensor("project.bias").data), Math.tanh);
}

/** W₂ relu(W₁ s + b₁) + b₂ of the flattened embedding, or one linear layer: (C). */
function classify(tensors, embedding) {
  const flat = new Matrix(1, embedding.data.length, embedding.data);
  const { w1, b1, w2, b2 } = classifierLayers(tensors);
  const hidden = w1 ? map(linear(flat, w1, b1), relu) : flat;
  return linear(hidden, w2, b2).data;
}

/** The classifier's tensors; w1 and b1 are undefined if it is one linear layer. */
export function classifierLayers(tensors) {
  const w1 = tensors["classifier.0.weight"], last = w1 ? 3 : 1;
  return {
    w1,
    b1: tensors["classifier.0.bias"]?.data,
    w2: tensors[`classifier.${last}.weight`],
    b2: tensors[`classifier.${last}.bias`].data,
  };
}
