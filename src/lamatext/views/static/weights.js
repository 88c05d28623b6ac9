// Tensors from a safetensors file: eight bytes, a header in JSON, then the numbers.

import { Matrix } from "./arrays.js";

const KINDS = { F32: Float32Array, F16: Uint16Array, I8: Int8Array, U8: Uint8Array, U32: Uint32Array };

/** The arrays of a file by name, as they lie: {kind, shape, values}. */
export function readTensors(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [start, end] }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const bytes = buffer.slice(8 + length + start, 8 + length + end);
    tensors[name] = { kind: dtype, shape, values: new KINDS[dtype](bytes) };
  }
  return tensors;
}

/** The tensors of a network in float32, as matrices; a vector is a matrix of one row. */
export function restored(tensors) {
  const found = {};
  for (const [name, { kind, shape, values }] of Object.entries(tensors)) {
    if (name.endsWith(".scale")) continue;
    const rows = shape.length > 1 ? shape[0] : 1;
    const matrix = new Matrix(rows, values.length / rows, kind === "F32" ? values : undefined);
    if (kind === "F16") fromHalves(matrix.data, values);
    if (kind === "I8") fromBytes(matrix, values, tensors[name + ".scale"].values);
    found[name] = Object.assign(matrix, { shape });
  }
  return found;
}

function fromHalves(data, values) {
  for (let k = 0; k < data.length; k++) data[k] = HALVES[values[k]];
}

/** A matrix in int8 has a scale for each row. */
function fromBytes({ rows, columns, data }, values, scale) {
  for (let i = 0, k = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++, k++) data[k] = values[k] * scale[i];
  }
}

/** Every number of 16 bits as a number. */
const HALVES = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * (1 + fraction / 1024) * 2 ** (exponent - 15) : sign * fraction * 2 ** -24;
});

/** Bytes from base64. */
export function fromBase64(text) {
  const characters = atob(text), bytes = new Uint8Array(characters.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = characters.charCodeAt(k);
  return bytes.buffer;
}
