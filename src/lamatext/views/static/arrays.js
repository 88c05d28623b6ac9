// Row-major float32 matrices and the operations that the network needs.

/** A (rows, columns) matrix, zero by default. */
export class Matrix {
  constructor(rows, columns, data = new Float32Array(rows * columns)) {
    Object.assign(this, { rows, columns, data });
  }

  row(i) {
    return this.data.subarray(i * this.columns, (i + 1) * this.columns);
  }

  toRows() {
    return Array.from({ length: this.rows }, (_, i) => Array.from(this.row(i)));
  }
}

export const sum = values => values.reduce((a, b) => a + b, 0);

/** The rows of x with the given indices. */
export function take(x, indices) {
  const out = new Matrix(indices.length, x.columns);
  indices.forEach((from, to) => out.row(to).set(x.row(from)));
  return out;
}

/** Dot product of `length` values of a from index i and of b from index j. */
export function dot(a, i, b, j, length) {
  let sum = 0;
  for (let k = 0; k < length; k++) sum += a[i + k] * b[j + k];
  return sum;
}

/** X Wᵀ + b: (T, n), (m, n), (m) → (T, m); b is optional. */
export function linear(x, w, b = null) {
  const out = new Matrix(x.rows, w.rows), n = w.columns;
  for (let t = 0; t < x.rows; t++) {
    const y = out.row(t);
    let i = 0;
    for (; i + 4 <= w.rows; i += 4) fourDots(x.data, t * n, w.data, i * n, n, y, i); // reads x once for four rows of w
    for (; i < w.rows; i++) y[i] = dot(x.data, t * n, w.data, i * n, n);
    if (b) for (i = 0; i < y.length; i++) y[i] += b[i];
  }
  return out;
}

function fourDots(x, from, w, row, n, y, i) {
  let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (let k = 0; k < n; k++) {
    const value = x[from + k], at = row + k;
    s0 += value * w[at];
    s1 += value * w[at + n];
    s2 += value * w[at + 2 * n];
    s3 += value * w[at + 3 * n];
  }
  y[i] = s0;
  y[i + 1] = s1;
  y[i + 2] = s2;
  y[i + 3] = s3;
}

/** Apply f to every value. */
export function map(x, f) {
  return new Matrix(x.rows, x.columns, x.data.map(f));
}

export function transpose(x) {
  const out = new Matrix(x.columns, x.rows);
  for (let i = 0; i < x.rows; i++) {
    for (let j = 0; j < x.columns; j++) out.data[j * x.rows + i] = x.data[i * x.columns + j];
  }
  return out;
}

/** Mean over the rows: (1, columns). */
export function meanRow(x) {
  const sums = new Float64Array(x.columns);
  for (let k = 0; k < x.data.length; k++) sums[k % x.columns] += x.data[k];
  return new Matrix(1, x.columns, Float32Array.from(sums, sum => sum / x.rows));
}

/** Maximum over the rows: (1, columns). */
export function maxRow(x) {
  const out = new Matrix(1, x.columns, new Float32Array(x.columns).fill(-Infinity));
  for (let k = 0; k < x.data.length; k++) {
    const j = k % x.columns;
    if (x.data[k] > out.data[j]) out.data[j] = x.data[k];
  }
  return out;
}

/** One probability per label, for a model that may give a text several labels. */
export const sigmoids = values => Float32Array.from(values, value => 1 / (1 + Math.exp(-value)));

/** exp(x) / Σ exp(x). */
export function softmax(values) {
  const largest = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(values, value => Math.exp(value - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return Float32Array.from(powers, power => power / total);
}

/** Probabilities of labels of which the share `noise` is wrong: any of the others. */
export function addLabelNoise(probabilities, noise) {
  const wrong = noise / (probabilities.length - 1);
  return noise ? probabilities.map(value => (1 - noise - wrong) * value + wrong) : probabilities;
}
