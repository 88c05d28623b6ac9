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
    const columns = values.length / rows;
    const scale = tensors[name + ".scale"]?.values;
    const data =
      kind === "F16" ? Float32Array.from(values, half => HALVES[half])
      : kind === "I8" ? Float32Array.from(values, (value, k) => value * scale[Math.floor(k / columns)])
      : values;
    found[name] = Object.assign(new Matrix(rows, columns, data), { shape });
  }
  return found;
}

/** Every number of 16 bits as a number. */
const HALVES = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * (1 + fraction / 1024) * 2 ** (exponent - 15) : sign * fraction * 2 ** -24;
});

/** Bytes from base64. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text.trim()), character => character.charCodeAt(0)).buffer;
}
