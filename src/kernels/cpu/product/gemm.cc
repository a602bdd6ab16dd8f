#include "weft/kernels/cpu/product/gemm.h"

#include <algorithm>
#include <type_traits>

#include "weft/core/base/error.h"
#include "weft/kernels/cpu/product/gemm_f32.h"
#include "weft/kernels/cpu/product/openblas.h"

namespace weft::cpu {
namespace {

// Throws Error if OpenBLAS cannot be opened.
const OpenBlas& Blas() {
  static const OpenBlas& blas = []() -> const OpenBlas& {
    const absl::StatusOr<OpenBlas>& loaded = LoadedOpenBlas();
    WEFT_CHECK(loaded.ok(), std::string(loaded.status().message()));
    return *loaded;
  }();
  return blas;
}

void Call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
          float* c, int ldc) {
  Blas().sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc);
}
void Call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const double* a, int lda, const double* b,
          int ldb, double* c, int ldc) {
  Blas().dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, a, lda, b, ldb, 0.0, c, ldc);
}

void CallVector(CBLAS_TRANSPOSE tb, int rows, int columns, const float* b, int ldb, const float* a, int step,
                float* c) {
  Blas().sgemv(CblasRowMajor, tb, rows, columns, 1.0f, b, ldb, a, step, 0.0f, c, 1);
}
void CallVector(CBLAS_TRANSPOSE tb, int rows, int columns, const double* b, int ldb, const double* a, int step,
                double* c) {
  Blas().dgemv(CblasRowMajor, tb, rows, columns, 1.0, b, ldb, a, step, 0.0, c, 1);
}

// A product of matrices would first copy b, which costs more than the product of a single row.
template <class C>
void RowTimesMatrix(int64_t n, int64_t k, Matrix<const C> a, Matrix<const C> b, Matrix<C> c) {
  if (b.column == 1)
    CallVector(CblasTrans, int(k), int(n), b.data, int(std::max(b.row, n)), a.data, int(a.column), c.data);
  else
    CallVector(CblasNoTrans, int(n), int(k), b.data, int(std::max(b.column, k)), a.data, int(a.column), c.data);
}

}  // namespace

template <class C>
void Gemm(int64_t m, int64_t n, int64_t k, Matrix<const C> a, Matrix<const C> b, Matrix<C> c) {
  if (m == 1 && a.column > 0 && n > 0) return RowTimesMatrix(n, k, a, b, c);
  bool ta = a.column != 1, tb = b.column != 1;
  // The stride of a dim of extent 1 is never used and may be anything, but BLAS checks it nevertheless.
  int64_t &a_stride = ta ? a.column : a.row, &b_stride = tb ? b.column : b.row;
  a_stride = std::max(a_stride, ta ? m : k);
  b_stride = std::max(b_stride, tb ? k : n);
  c.row = std::max(c.row, n);
  if constexpr (std::is_same_v<C, float>)
    if (SuitsOneDnn(m, n, k)) return GemmF32(m, n, k, a, b, c);
  Call(ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, int(m), int(n), int(k), a.data, int(a_stride),
       b.data, int(b_stride), c.data, int(c.row));
}
template void Gemm<float>(int64_t, int64_t, int64_t, Matrix<const float>, Matrix<const float>, Matrix<float>);
template void Gemm<double>(int64_t, int64_t, int64_t, Matrix<const double>, Matrix<const double>, Matrix<double>);

absl::Status OpenGemm() { return LoadedOpenBlas().status(); }

std::string GemmCore() { return Blas().corename(); }

std::string GemmNote() { return Blas().note; }

}  // namespace weft::cpu
