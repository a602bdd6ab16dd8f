// One block of Llama 8B on one rank of a tensor-parallel group with sequence parallelism.
//   Sizes sizes{4, 4 * 4096, 4096};   Region mlp(sizes, Kind::kMlp, rank);   mlp.first.At(slice, slices)
// A block is two regions, attention and MLP. Each gathers its input's rows, multiplies twice, scatters the sums over
// ranks, and adds its input: x -> gathered -> first -> second -> partial -> sum -> the next region's x. The gradients
// run the same way back.
#pragma once
#include "../probe.h"

constexpr int kWidth = 4096, kHidden = 14336, kQueryKeyValue = 6144;

enum class Kind { kAttention, kMlp };

struct Sizes {
  int ranks, rows, sequence;  // rows of the whole batch
  // Columns of a rank's result of the first product (q, k, v or gate, up) and operand of the second one.
  int First(Kind kind) const { return (kind == Kind::kMlp ? 2 * kHidden : kQueryKeyValue) / ranks; }
  int Second(Kind kind) const { return (kind == Kind::kMlp ? kHidden : kWidth) / ranks; }
};

// A matrix of bf16, whose rows are cut into equal slices.
struct Tensor {
  Tensor(int r, int w) : rows(r), width(w), memory(size_t(r) * w) {}
  Tensor(int r, int w, uint32_t seed, float deviation) : rows(r), width(w), memory(size_t(r) * w, seed, 0, deviation) {}
  bf16* At(int slice, int slices) const { return memory.data() + size_t(rows / slices) * slice * width; }
  bf16* data() const { return memory.data(); }
  int rows, width;
  Buffer<bf16> memory;
};

struct Region {
  Region(const Sizes& s, Kind k, uint32_t seed)
      : kind(k),
        into(kWidth, s.First(k), seed, 1.f / 64),                                                      // [D, F]
        out(s.Second(k), kWidth, seed + 1, 1 / std::sqrt(float(k == Kind::kMlp ? kHidden : kWidth))),  // [E, D]
        d_into(kWidth, s.First(k)),                                                                    // [D, F]
        d_out(s.Second(k), kWidth),                                                                    // [E, D]
        x(s.rows / s.ranks, kWidth),                                                                   // [T/n, D]
        sum(s.rows / s.ranks, kWidth),                                                                 // [T/n, D]
        d_x(s.rows / s.ranks, kWidth),                                                                 // [T/n, D]
        d_sum(s.rows / s.ranks, kWidth),                                                               // [T/n, D]
        gathered(s.rows, kWidth),                                                                      // [T, D]
        partial(s.rows, kWidth),                                                                       // [T, D]
        d_gathered(s.rows, kWidth),                                                                    // [T, D]
        d_partial(s.rows, kWidth),                                                                     // [T, D]
        first(s.rows, s.First(k)),                                                                     // [T, F]
        d_first(s.rows, s.First(k)),                                                                   // [T, F]
        second(s.rows, s.Second(k)),                                                                   // [T, E]
        d_second(s.rows, s.Second(k)) {}                                                               // [T, E]
  // Makes every value that a step computes NaN, so that a read before the write is found.
  void Poison() {
    for (Tensor* t : {&d_into, &d_out, &x, &sum, &d_x, &d_sum, &gathered, &partial, &d_gathered, &d_partial, &first,
                      &d_first, &second, &d_second})
      t->memory.Poison();
  }
  Kind kind;
  Tensor into, out, d_into, d_out;  // weights and their gradients
  // d_gathered is the gathered gradient of the region's result. d_partial is this rank's part of the gradient of x.
  Tensor x, sum, d_x, d_sum, gathered, partial, d_gathered, d_partial, first, d_first, second, d_second;
};

// ---- memory-bound kernels, eight values per thread ----

struct Eight {
  float v[8];
};
__device__ inline Eight Load(const bf16* from) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  Eight x;
  for (int e = 0; e < 8; ++e) x.v[e] = __bfloat162float(reinterpret_cast<const bf16*>(&raw)[e]);
  return x;
}
__device__ inline void Store(bf16* to, const Eight& x) {
  uint4 raw;
  for (int e = 0; e < 8; ++e) reinterpret_cast<bf16*>(&raw)[e] = __float2bfloat16(x.v[e]);
  *reinterpret_cast<uint4*>(to) = raw;
}

// out = 0.7 (a + b): a residual sum and, in place of a norm, a factor that keeps its deviation.
__global__ void AddScaled(bf16* out, const bf16* a, const bf16* b, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n / 8; i += size_t(gridDim.x) * blockDim.x) {
    Eight x = Load(a + 8 * i);
    const Eight y = Load(b + 8 * i);
    for (int e = 0; e < 8; ++e) x.v[e] = 0.7f * (x.v[e] + y.v[e]);
    Store(out + 8 * i, x);
  }
}

// out[rows, hidden] = silu(gate) up, of in[rows, gate | up].
__global__ void SwiGlu(bf16* out, const bf16* in, size_t rows, int hidden) {
  const size_t per_row = hidden / 8;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < rows * per_row;
       i += size_t(gridDim.x) * blockDim.x) {
    const bf16* from = in + i / per_row * 2 * hidden + i % per_row * 8;
    Eight gate = Load(from);
    const Eight up = Load(from + hidden);
    for (int e = 0; e < 8; ++e) gate.v[e] *= up.v[e] / (1 + __expf(-gate.v[e]));
    Store(out + 8 * i, gate);
  }
}

// d_in[rows, gate | up] from in and d_out[rows, hidden].
__global__ void SwiGluGradient(bf16* d_in, const bf16* in, const bf16* d_out, size_t rows, int hidden) {
  const size_t per_row = hidden / 8;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < rows * per_row;
       i += size_t(gridDim.x) * blockDim.x) {
    const size_t at = i / per_row * 2 * hidden + i % per_row * 8;
    Eight gate = Load(in + at), up = Load(in + at + hidden);
    const Eight d = Load(d_out + 8 * i);
    for (int e = 0; e < 8; ++e) {
      const float g = gate.v[e], s = 1 / (1 + __expf(-g));
      gate.v[e] = d.v[e] * up.v[e] * s * (1 + g * (1 - s));
      up.v[e] = d.v[e] * g * s;
    }
    Store(d_in + at, gate);
    Store(d_in + at + hidden, up);
  }
}
