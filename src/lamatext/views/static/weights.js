// Reads tensors from a safetensors file: 8 bytes of header length, a JSON header, then the values.

import { Matrix } from "./arrays.js";

const ARRAY_TYPES = { F32: Float32Array, F16: Uint16Array, I8: Int8Array, U8: Uint8Array, U32: Uint32Array };

/** The tensors of a file by name, as stored: {dtype, shape, values}. */
export function readTensors(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [start, end] }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const bytes = buffer.slice(8 + length + start, 8 + length + end);
    tensors[name] = { dtype, shape, values: new ARRAY_TYPES[dtype](bytes) };
  }
  return tensors;
}

/** The network's tensors as float32 matrices; a vector becomes a matrix with one row. */
export function dequantize(tensors) {
  const matrices = {};
  for (const [name, { dtype, shape, values }] of Object.entries(tensors)) {
    if (name.endsWith(".scale")) continue;
    const rows = shape.length > 1 ? shape[0] : 1;
    const matrix = new Matrix(rows, values.length / rows, dtype === "F32" ? values : undefined);
    if (dtype === "F16") fromFloat16(matrix.data, values);
    if (dtype === "I8") fromInt8(matrix, values, tensors[name + ".scale"].values);
    matrices[name] = Object.assign(matrix, { shape });
  }
  return matrices;
}

function fromFloat16(data, values) {
  for (let k = 0; k < data.length; k++) data[k] = FLOAT16[values[k]];
}

/** An int8 matrix has one scale per row. */
function fromInt8({ rows, columns, data }, values, scale) {
  for (let i = 0, k = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++, k++) data[k] = values[k] * scale[i];
  }
}

/** The value of each of the 65,536 float16 bit patterns. */
const FLOAT16 = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * (1 + fraction / 1024) * 2 ** (exponent - 15) : sign * fraction * 2 ** -24;
});

/** Decode base64 into an ArrayBuffer. */
export function fromBase64(text) {
  const characters = atob(text), bytes = new Uint8Array(characters.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = characters.charCodeAt(k);
  return bytes.buffer;
}
