#include "weft/kernels/cpu/product/gemm_f32.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.h>

#include "weft/core/base/error.h"
#include "weft/core/host/held_signals.h"
#include "weft/kernels/cpu/product/onednn.h"

namespace weft::cpu {

// OpenBLAS has own kernels for up to a million multiplications, which do not copy operands and are faster. Above, it
// has 0.88 to 0.96 of oneDNN's rate with 256 rows and more, and 0.3 to 0.7 with 2 to 64 rows (one core with AVX-512).
// Without AVX-512 neither is faster.
bool SuitsOneDnn(int64_t m, int64_t n, int64_t k) {
  static const bool has = OneDnnHas(dnnl_cpu_isa_avx512_core);
  return has && m * n * k > 1'000'000;
}

void GemmF32(int64_t m, int64_t n, int64_t k, Matrix<const float> a, Matrix<const float> b, Matrix<float> c) {
  KeepOneDnnOnThisThread();
  HeldSignals held;  // the product keeps the stack pointer in a buffer, below which a handler's frame would be written
  bool ta = a.column != 1, tb = b.column != 1;
  dnnl_status_t status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a.data, ta ? a.column : a.row,
                                    b.data, tb ? b.column : b.row, 0.0f, c.data, c.row);
  WEFT_CHECK(status == dnnl_success,
             fmt::format("oneDNN cannot multiply [{}, {}] by [{}, {}] in f32: error {}", m, k, k, n, int(status)));
}

}  // namespace weft::cpu
