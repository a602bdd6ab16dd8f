#include "weft/kernels/cuda/product/product_call.h"

#include "weft/kernels/cuda/device/blas.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr int kGuesses = 8;
constexpr size_t kWholeVector = 16;

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t ComputeTypeOf(const Product& product) {
  if (product.dtype == DType::kF64) return CUBLAS_COMPUTE_64F;
  return product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
void Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, T value) {
  WEFT_CUDA(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof(value)));
}
template <class T>
void Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name, T value) {
  WEFT_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)));
}

void SetLayout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows, int64_t columns, int64_t ld,
               int64_t batch, int64_t stride) {
  WEFT_CUDA(cublasLtMatrixLayoutInit(&layout, TypeOf(dtype), uint64_t(rows), uint64_t(columns), ld));
  if (batch == 1) return;
  int32_t count = int32_t(batch);
  WEFT_CUDA(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
  WEFT_CUDA(
      cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
}

}  // namespace

int64_t AlignmentOf(const void* data) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(data) | kWholeVector;
  return int64_t(bits & (~bits + 1));
}

ProductCall::ProductCall(const Product& p) : product_(p) {
  cudaDataType_t scale = p.dtype == DType::kF64 ? CUDA_R_64F : CUDA_R_32F;
  WEFT_CUDA(cublasLtMatmulDescInit(&operation_, ComputeTypeOf(p), scale));
  Set(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(&operation_, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  int64_t a_rows = p.transpose_a ? p.k : p.m, b_rows = p.transpose_b ? p.n : p.k;
  SetLayout(a_, p.dtype, a_rows, p.m + p.k - a_rows, p.lda, p.batch, p.stride_a);
  SetLayout(b_, p.dtype, b_rows, p.k + p.n - b_rows, p.ldb, p.batch, p.stride_b);
  SetLayout(d_, ResultType(p), p.m, p.n, p.ldd, p.batch, p.stride_d);
  if (p.bias) Set(&operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  if (!p.gelu_grad) return;
  Set(&operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU);
  Set(&operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.ldd);
}

void ProductCall::Point(const ProductMemory& memory) {
  if (product_.bias) Set(&operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
  if (product_.gelu_grad) Set(&operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory.gelu);
}

std::vector<Algorithm> ProductCall::Named(cublasLtHandle_t library, const ProductMemory& memory) {
  Point(memory);
  cublasLtMatmulPreferenceOpaque_t preference;
  WEFT_CUDA(cublasLtMatmulPreferenceInit(&preference));
  Set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(memory.workspace_bytes));
  // Partial sums of a split sum stay in the compute type. In the output type they would lose bits.
  Set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(AlignmentOf(memory.a)));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(AlignmentOf(memory.b)));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(AlignmentOf(memory.d)));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(AlignmentOf(memory.d)));
  std::array<cublasLtMatmulHeuristicResult_t, kGuesses> results;
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library, &operation_, &a_, &b_, &d_, &d_, &preference,
                                                         kGuesses, results.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) Check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Algorithm> named;
  for (int i = 0; i < count; i++)
    if (results[size_t(i)].state == CUBLAS_STATUS_SUCCESS) named.push_back({results[size_t(i)].algo});
  return named;
}

cublasStatus_t ProductCall::Launch(cublasLtHandle_t library, const ProductMemory& memory, const Algorithm& algorithm,
                                   cudaStream_t stream) {
  static constexpr float kOne = 1, kZero = 0;
  static constexpr double kOneF64 = 1, kZeroF64 = 0;
  const void *one = &kOne, *zero = &kZero;
  if (product_.dtype == DType::kF64) one = &kOneF64, zero = &kZeroF64;
  Point(memory);
  const void *beta = product_.accumulate ? one : zero, *c = product_.accumulate ? memory.c : memory.d;
  return cublasLtMatmul(library, &operation_, one, memory.a, &a_, memory.b, &b_, beta, c, &d_, memory.d, &d_,
                        &algorithm.words, memory.workspace, memory.workspace_bytes, stream);
}

}  // namespace weft::cuda
