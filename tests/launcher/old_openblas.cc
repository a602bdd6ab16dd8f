// An OpenBLAS that was built for one old processor, so it has no other kernels to choose from.
#include <cblas.h>

namespace {

template <class C>
void Multiply(bool ta, bool tb, int m, int n, int k, const C* a, int lda, const C* b, int ldb, C* c, int ldc) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      C sum = 0;
      for (int p = 0; p < k; p++)
        sum += (ta ? a[p * lda + i] : a[i * lda + p]) * (tb ? b[j * ldb + p] : b[p * ldb + j]);
      c[i * ldc + j] = sum;
    }
}

}  // namespace

extern "C" {
void cblas_sgemm(CBLAS_ORDER, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, float,
                 const float* a, blasint lda, const float* b, blasint ldb, float, float* c, blasint ldc) {
  Multiply(ta == CblasTrans, tb == CblasTrans, m, n, k, a, lda, b, ldb, c, ldc);
}
void cblas_dgemm(CBLAS_ORDER, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, double,
                 const double* a, blasint lda, const double* b, blasint ldb, double, double* c, blasint ldc) {
  Multiply(ta == CblasTrans, tb == CblasTrans, m, n, k, a, lda, b, ldb, c, ldc);
}
void cblas_sgemv(CBLAS_ORDER, CBLAS_TRANSPOSE t, blasint m, blasint n, float, const float* a, blasint lda,
                 const float* x, blasint x_step, float, float* y, blasint y_step) {
  bool turned = t == CblasTrans;
  Multiply(turned, false, turned ? n : m, 1, turned ? m : n, a, lda, x, x_step, y, y_step);
}
void cblas_dgemv(CBLAS_ORDER, CBLAS_TRANSPOSE t, blasint m, blasint n, double, const double* a, blasint lda,
                 const double* x, blasint x_step, double, double* y, blasint y_step) {
  bool turned = t == CblasTrans;
  Multiply(turned, false, turned ? n : m, 1, turned ? m : n, a, lda, x, x_step, y, y_step);
}
void openblas_set_num_threads(int) {}
char* openblas_get_corename(void) {
  static char name[] = "Prescott";
  return name;
}
}
