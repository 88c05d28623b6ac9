// Reads tensors from a safetensors file: 8 bytes of header length, a JSON header, then the values.

import { Matrix } from "./arrays.js";

const ARRAY_TYPES = { F32: Float32Array, F16: Uint16Array, I8: Int8Array, U8: Uint8Array, U32: Uint32Array };
const MAX_WEIGHT = 1e5, MAX_LOG_TEMPERATURE = 20; // larger ones could overflow, as in lamatext.saved

/** The files of a model are damaged or do not fit together. */
export class ModelError extends Error {
  name = "ModelError";
}

/** The tensors of a file by name, as stored: {dtype, shape, values}. */
export function readTensors(buffer) {
  try {
    return parseTensors(buffer);
  } catch (error) {
    throw new ModelError(`The model is damaged: ${error.message}. Load or export it again.`);
  }
}

function parseTensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(buffer, 8, length)));
  const tensors = Object.create(null); // a tensor may be called "constructor"
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const { dtype, shape, data_offsets: [start, end] } = entry;
    const isSize = size => Number.isSafeInteger(size) && size >= 0;
    if (![...shape, start, end].every(isSize)) throw new Error(`the entry of ${name} is malformed`);
    const values = new ARRAY_TYPES[dtype](buffer.slice(8 + length + start, 8 + length + end));
    if (values.length !== product(shape) || values.byteLength !== end - start) {
      throw new Error(`the bytes of ${name} are not within the file`);
    }
    tensors[name] = { dtype, shape, values };
  }
  return tensors;
}

const product = shape => shape.reduce((a, b) => a * b, 1);

/** Check one tensor; `dtypes` are the types that it may have. */
export function checkTensor(tensors, name, shape, dtypes, limit = MAX_WEIGHT) {
  const tensor = tensors[name];
  if (!tensor || !dtypes.includes(tensor.dtype) || String(tensor.shape) !== String(shape)) {
    throw new ModelError(`The model is damaged: ${name} must be ${dtypes} of shape ${shape}.`);
  }
  const numbers = tensor.dtype === "F16" ? Float32Array.from(tensor.values, bits => FLOAT16[bits]) : tensor.values;
  if (!numbers.every(value => Math.abs(value) <= limit)) {
    throw new ModelError(`The model is damaged: ${name} must hold numbers of at most ${limit}.`);
  }
}

/** Check that the network has exactly the tensors that `shapes` describes, with usable numbers. */
export function checkNetwork(tensors, shapes) {
  const scales = new Set();
  for (const [name, shape] of Object.entries(shapes)) {
    const limit = name.endsWith("log_temperature") ? MAX_LOG_TEMPERATURE : MAX_WEIGHT;
    checkTensor(tensors, name, shape, ["F32", "F16", ...(shape.length === 2 ? ["I8"] : [])], limit);
    if (tensors[name].dtype !== "I8") continue;
    checkTensor(tensors, name + ".scale", [shape[0]], ["F32"]);
    scales.add(name + ".scale");
  }
  for (const name of Object.keys(tensors)) {
    if (!Object.hasOwn(shapes, name) && !scales.has(name)) {
      throw new ModelError(`The model is damaged: ${name} is no tensor of this network.`);
    }
  }
}

/** The network's tensors as float32 matrices; a vector becomes a matrix with one row. */
export function dequantize(tensors) {
  const matrices = Object.create(null);
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
