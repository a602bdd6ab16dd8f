#include "weft/kernels/cpu/product/gemm_bf16.h"

#include <dlfcn.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace weft::cpu {
namespace {

using Type = dnnl::memory::data_type;
// m, n, k, the strides of a and b, the row stride of c, whether c is f32.
using Key = std::array<int64_t, 9>;
struct Product {
  dnnl::matmul matmul;
  dnnl::memory a, b, c;
};

// What one thread keeps: making a product costs 3 us even when oneDNN has its code at hand, running a small one 3 us.
struct Kept {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  absl::flat_hash_map<Key, Product> products;

  Kept() {
    // oneDNN would start a team of OpenMP threads for each of ours. The setting is per calling thread; looked up by
    // name, because oneDNN may be built on another pool, which then has no such function.
    if (void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(1);
  }
};

// oneDNN 2 (Debian 12) wants the operation described first, oneDNN 3 (Debian 13) takes it with the engine. A template,
// as one of the two does not compile.
template <class Matmul>
typename Matmul::primitive_desc Described(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                          const dnnl::memory::desc& b, const dnnl::memory::desc& c) {
  if constexpr (requires { typename Matmul::desc; })
    return typename Matmul::primitive_desc(typename Matmul::desc(a, b, c), engine);
  else
    return typename Matmul::primitive_desc(engine, a, b, c);
}

Product Make(const dnnl::engine& engine, const Key& key) {
  auto [m, n, k, a_row, a_column, b_row, b_column, c_row, wide] = key;
  dnnl::memory::desc a({m, k}, Type::bf16, dnnl::memory::dims{a_row, a_column}),
      b({k, n}, Type::bf16, dnnl::memory::dims{b_row, b_column});
  dnnl::memory::desc c({m, n}, wide ? Type::f32 : Type::bf16, dnnl::memory::dims{c_row, 1});
  return {dnnl::matmul(Described<dnnl::matmul>(engine, a, b, c)), dnnl::memory(a, engine, nullptr),
          dnnl::memory(b, engine, nullptr), dnnl::memory(c, engine, nullptr)};
}

}  // namespace

bool HasBf16Gemm() {
  static const bool has = [] {
    // A set of features has its bits and those of the sets below it; oneDNN 3 knows more sets than oneDNN 2.
    auto wanted = int(dnnl::cpu_isa::avx512_core_bf16);
    return (int(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return has;
}

template <class Out>
void GemmBf16(int64_t m, int64_t n, int64_t k, Matrix<const BF16> a, Matrix<const BF16> b, Matrix<Out> c) {
  static thread_local Kept kept;
  constexpr size_t kMost = 512;  // shapes change with batches only; a bound for those who sweep
  Key key{m, n, k, a.row, a.column, b.row, b.column, c.row, std::is_same_v<Out, float>};
  auto found = kept.products.find(key);
  if (found == kept.products.end()) {
    if (kept.products.size() >= kMost) kept.products.clear();
    found = kept.products.emplace(key, Make(kept.engine, key)).first;
  }
  Product& p = found->second;
  p.a.set_data_handle(const_cast<BF16*>(a.data));
  p.b.set_data_handle(const_cast<BF16*>(b.data));
  p.c.set_data_handle(c.data);
  p.matmul.execute(kept.stream, {{DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, p.b}, {DNNL_ARG_DST, p.c}});
  kept.stream.wait();
}
template void GemmBf16(int64_t, int64_t, int64_t, Matrix<const BF16>, Matrix<const BF16>, Matrix<BF16>);
template void GemmBf16(int64_t, int64_t, int64_t, Matrix<const BF16>, Matrix<const BF16>, Matrix<float>);

}  // namespace weft::cpu
