// CUDA kernel of the one-layer bidirectional GRU: one block per text and direction, one thread per
// row of the three gates. Reference implementation: packed_gru in gru_dispatch.py.
// A thread keeps its row (forward) or column (backward) of the recurrent weights in registers, so
// that a step reads only its own inputs from memory. H, the hidden units, is defined by gru_cuda.py.
//
// gates  (B, T, 2, 3H)  W x + b of the inputs, gates in torch's order r, z, n
// weight (2, 3H, H), bias (2, 3H)  of the recurrence
// states (B, T, 2H), trace (B, T, 2, 4H): r, z, n and q = U h + b of n; zero beyond the lengths

extern "C" __global__ void gru_forward(const float* gates, const float* weight, const float* bias,
                                       const int* lengths, float* states, float* trace, int T) {
  const int b = blockIdx.x, d = blockIdx.y, j = threadIdx.x, length = lengths[b];
  __shared__ float h[H];
  __shared__ float g[3 * H];
  float row[H];
  float mine = 0.f;
  if (j < 3 * H) {
#pragma unroll
    for (int k = 0; k < H; ++k) row[k] = weight[(d * 3 * H + j) * H + k];
    mine = bias[d * 3 * H + j];
  }
  if (j < H) h[j] = 0.f;
  __syncthreads();
  for (int s = 0; s < length; ++s) {
    const int t = d ? length - 1 - s : s;
    const long long at = (long long)b * T + t;
    float xr = 0.f, xz = 0.f, xn = 0.f;
    if (j < H) {
      const float* x = gates + (at * 2 + d) * 3 * H;
      xr = x[j];
      xz = x[H + j];
      xn = x[2 * H + j];
    }
    if (j < 3 * H) {
      float even = mine, odd = 0.f;
#pragma unroll
      for (int k = 0; k + 1 < H; k += 2) {
        even += row[k] * h[k];
        odd += row[k + 1] * h[k + 1];
      }
      if (H % 2) even += row[H - 1] * h[H - 1];
      g[j] = even + odd;
    }
    __syncthreads();
    if (j < H) {
      const float r = 1.f / (1.f + expf(-(xr + g[j])));
      const float z = 1.f / (1.f + expf(-(xz + g[H + j])));
      const float q = g[2 * H + j];
      const float n = tanhf(xn + r * q);
      const float next = (1.f - z) * n + z * h[j];
      float* kept = trace + (at * 2 + d) * 4 * H;
      kept[j] = r;
      kept[H + j] = z;
      kept[2 * H + j] = n;
      kept[3 * H + j] = q;
      h[j] = next;
      states[at * 2 * H + d * H + j] = next;
    }
    __syncthreads();
  }
}

// d_states (B, T, 2H): gradient of the states; d_gates (B, T, 2, 4H): gradients of the inputs of
// r, z and n (W x + b), and of q.
extern "C" __global__ void gru_backward(const float* d_states, const float* weight,
                                        const int* lengths, const float* states,
                                        const float* trace, float* d_gates, int T) {
  const int b = blockIdx.x, d = blockIdx.y, j = threadIdx.x, length = lengths[b];
  __shared__ float g[3 * H];
  __shared__ float part[3 * H];
  float column[H];
  float direct = 0.f;
  if (j < 3 * H) {
    const int first = (j / H) * H;
#pragma unroll
    for (int i = 0; i < H; ++i) column[i] = weight[(d * 3 * H + first + i) * H + j % H];
    part[j] = 0.f;
  }
  __syncthreads();
  for (int s = length - 1; s >= 0; --s) {
    const int t = d ? length - 1 - s : s;
    const long long at = (long long)b * T + t;
    if (j < H) {
      const float* kept = trace + (at * 2 + d) * 4 * H;
      const float r = kept[j], z = kept[H + j], n = kept[2 * H + j], q = kept[3 * H + j];
      const long long before = d ? at + 1 : at - 1;
      const float last = s > 0 ? states[before * 2 * H + d * H + j] : 0.f;
      const float grad = d_states[at * 2 * H + d * H + j] + direct + part[j] + part[H + j] +
                         part[2 * H + j];
      const float dn = grad * (1.f - z) * (1.f - n * n);
      const float dz = grad * (last - n) * z * (1.f - z);
      const float dr = dn * q * r * (1.f - r);
      float* out = d_gates + (at * 2 + d) * 4 * H;
      out[j] = g[j] = dr;
      out[H + j] = g[H + j] = dz;
      out[2 * H + j] = dn;
      out[3 * H + j] = g[2 * H + j] = dn * r;
      direct = grad * z;
    }
    __syncthreads();
    if (j < 3 * H) {
      const float* mine = g + (j / H) * H;
      float even = 0.f, odd = 0.f;
#pragma unroll
      for (int i = 0; i + 1 < H; i += 2) {
        even += column[i] * mine[i];
        odd += column[i + 1] * mine[i + 1];
      }
      if (H % 2) even += column[H - 1] * mine[H - 1];
      part[j] = even + odd;
    }
    __syncthreads();
  }
}
