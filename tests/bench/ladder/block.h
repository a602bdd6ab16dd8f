// One block of Llama 8B on 8192 tokens: the weights of its bucket, and its computation.
//   for (const Piece& tensor : BlockTensors()) ...;   Block block(cublas, tensors);   block.Forward(weights, stream);
#pragma once
#include "product.h"

constexpr int kRows = 8192, kWidth = 4096, kHidden = 14336, kQueryKeyValue = 6144;
constexpr size_t kBlock = 218'112'000;  // weights: 436 MB in bf16

struct Piece {
  size_t offset, size;  // in elements of the bucket
};

// Returns q, k, v, o, gate, up, down and the scales of both norms, one after the other.
inline std::vector<Piece> BlockTensors() {
  constexpr size_t kSquare = size_t(kWidth) * kWidth, kKeys = kSquare / 4, kWide = size_t(kWidth) * kHidden;
  std::vector<Piece> tensors;
  size_t offset = 0;
  for (size_t size : {kSquare, kKeys, kKeys, kSquare, kWide, kWide, kWide, size_t(kWidth), size_t(kWidth)}) {
    tensors.push_back({offset, size});
    offset += size;
  }
  return tensors;
}

// y = x / 2, as the traffic of memory-bound kernels.
__global__ void HalveAll(uint4* y, const uint4* x, size_t vectors) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < vectors; i += size_t(gridDim.x) * blockDim.x) {
    uint4 raw = x[i];
    bf16* values = reinterpret_cast<bf16*>(&raw);
    for (int e = 0; e < 8; ++e) values[e] = __float2bfloat16(0.5f * __bfloat162float(values[e]));
    y[i] = raw;
  }
}

// Random operands that every block of a step shares. The next product overwrites their results.
struct Activations {
  explicit Activations(uint32_t seed)
      : input(size_t(kRows) * kHidden, seed),
        gradient(size_t(kRows) * 2 * kHidden, seed + 1),
        output(gradient.size()) {}
  Buffer<bf16> input, gradient, output;
};

// The products of a block: 4.1 TFLOP forward and 8.8 TFLOP backward. This includes a substitute for attention: the
// output projection runs 2 and 6 more times, which takes as long. Passes over memory replace norms, activations and
// residual sums: 0.9 GB forward and 2.3 GB backward.
class Block {
 public:
  Block(cublasLtHandle_t cublas, Activations& tensors, bool wide_gradients)
      : tensors_(tensors), gradient_bytes_(wide_gradients ? 4 : 2), workspace_(kWorkspace) {
    const cudaDataType_t type = wide_gradients ? CUDA_R_32F : CUDA_R_16BF;
    for (const auto& [out, in, offset] : kMatrices) {
      forward_.emplace_back(cublas, ProductShape{.m = out, .n = kRows, .k = in});
      data_.emplace_back(cublas, ProductShape{.m = in, .n = kRows, .k = out, .op_a = CUBLAS_OP_T});
      weight_.emplace_back(cublas, ProductShape{.m = out, .n = in, .k = kRows, .op_b = CUBLAS_OP_T, .type_of_c = type});
    }
  }
  void Forward(const bf16* weights, cudaStream_t stream) {
    for (size_t i = 0; i < std::size(kMatrices); ++i) RunForward(i, weights, stream);
    for (int i = 0; i < 2; ++i) RunForward(kOutput, weights, stream), Traffic(stream);
  }
  // `gradients` has kBlock elements of f32 or bf16. Those of the matrices are written.
  void Backward(const bf16* weights, void* gradients, cudaStream_t stream) {
    const bf16* dy = tensors_.gradient.data();
    for (size_t i = std::size(kMatrices); i-- > 0;) {
      const size_t offset = kMatrices[i].offset;
      data_[i].Run(weights + offset, dy, tensors_.output.data(), workspace_.data(), stream);
      weight_[i].Run(dy, tensors_.input.data(), static_cast<char*>(gradients) + offset * gradient_bytes_,
                     workspace_.data(), stream);
    }
    for (int i = 0; i < 6; ++i) RunForward(kOutput, weights, stream);
    for (int i = 0; i < 5; ++i) Traffic(stream);
  }

 private:
  struct Matrix {
    int out, in;
    size_t offset;
  };
  static constexpr int kOutput = 1;
  static constexpr Matrix kMatrices[] = {{kQueryKeyValue, kWidth, 0},
                                         {kWidth, kWidth, 25'165'824},
                                         {2 * kHidden, kWidth, 41'943'040},
                                         {kWidth, kHidden, 159'383'552}};
  void RunForward(size_t i, const bf16* weights, cudaStream_t stream) {
    forward_[i].Run(weights + kMatrices[i].offset, tensors_.input.data(), tensors_.output.data(), workspace_.data(),
                    stream);
  }
  void Traffic(cudaStream_t stream) {
    HalveAll<<<1024, 512, 0, stream>>>(reinterpret_cast<uint4*>(tensors_.output.data()),
                                       reinterpret_cast<const uint4*>(tensors_.input.data()),
                                       tensors_.input.size() / 8);
    Check(cudaGetLastError(), "launch a pass over memory");
  }

  Activations& tensors_;
  size_t gradient_bytes_;
  Buffer<uint8_t> workspace_;
  std::vector<Product> forward_, data_, weight_;
};
