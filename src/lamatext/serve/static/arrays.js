// Matrices as plain arrays of numbers, row after row, and the few sums that a network is made of.

/** (rows, columns), zero unless filled. */
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

/** The rows of x whose numbers are given. */
export function take(x, rows) {
  const out = new Matrix(rows.length, x.columns);
  rows.forEach((from, to) => out.row(to).set(x.row(from)));
  return out;
}

/** Σᵢ aᵢ·bᵢ of two stretches of numbers that begin at `i` and `j`. */
export function dot(a, i, b, j, length) {
  let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  const whole = length - (length % 4);
  for (let k = 0; k < whole; k += 4) {
    s0 += a[i + k] * b[j + k];
    s1 += a[i + k + 1] * b[j + k + 1];
    s2 += a[i + k + 2] * b[j + k + 2];
    s3 += a[i + k + 3] * b[j + k + 3];
  }
  for (let k = whole; k < length; k++) s0 += a[i + k] * b[j + k];
  return s0 + s1 + s2 + s3;
}

/** X Wᵀ + b: (T, n), (m, n), (m) → (T, m); no b where there is none. */
export function linear(x, w, b = null) {
  const out = new Matrix(x.rows, w.rows);
  for (let t = 0; t < x.rows; t++) {
    for (let i = 0; i < w.rows; i++) {
      const sum = dot(x.data, t * x.columns, w.data, i * w.columns, w.columns);
      out.data[t * w.rows + i] = b ? sum + b[i] : sum;
    }
  }
  return out;
}

/** f of every number. */
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

/** The mean over the rows: (1, columns). */
export function meanRow(x) {
  const sums = new Float64Array(x.columns);
  for (let k = 0; k < x.data.length; k++) sums[k % x.columns] += x.data[k];
  return new Matrix(1, x.columns, Float32Array.from(sums, sum => sum / x.rows));
}

/** The maximum over the rows: (1, columns). */
export function maxRow(x) {
  const out = new Matrix(1, x.columns, new Float32Array(x.columns).fill(-Infinity));
  for (let k = 0; k < x.data.length; k++) {
    const j = k % x.columns;
    if (x.data[k] > out.data[j]) out.data[j] = x.data[k];
  }
  return out;
}

/** exp(x) / Σ exp(x). */
export function softmax(values) {
  const largest = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(values, value => Math.exp(value - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return Float32Array.from(powers, power => power / total);
}
