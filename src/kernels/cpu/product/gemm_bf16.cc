#include "weft/kernels/cpu/product/gemm_bf16.h"

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/kernels/cpu/product/onednn.h"

namespace weft::cpu {
namespace {

using Type = dnnl::memory::data_type;
// m, n, k, both strides of a, both strides of b, the row stride of c, and whether c is f32.
using Key = std::array<int64_t, 9>;
struct Product {
  dnnl::matmul matmul;
  dnnl::memory a, b, c;
};

// State that each thread keeps. Creating a primitive costs 3 us even if oneDNN has cached its code, and running a small
// one costs another 3 us.
struct Kept {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  absl::flat_hash_map<Key, Product> products;
  std::vector<BF16> row;                                      // see AdjacentRow
  std::tuple<std::vector<BF16>, std::vector<float>> columns;  // results that are not adjacent in c

  Kept() { KeepOneDnnOnThisThread(); }
};

// oneDNN 2 (Debian 12) needs a descriptor of the operation first; oneDNN 3 (Debian 13) takes the operands with the
// engine. A template, because only one of the two branches compiles.
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
  static const bool has = OneDnnHas(dnnl_cpu_isa_avx512_core_bf16);
  return has;
}

namespace {

// oneDNN 3.7 (Debian 13) computes a product wrong if `a` is one row whose elements are not adjacent, or if c is one
// column whose elements are not adjacent. Both are copied.
Matrix<const BF16> AdjacentRow(Matrix<const BF16> a, int64_t k, std::vector<BF16>& row) {
  row.resize(size_t(k));
  for (int64_t i = 0; i < k; i++) row[size_t(i)] = a.data[i * a.column];
  return {row.data(), k, 1};
}

template <class Out>
void Multiply(Kept& kept, int64_t m, int64_t n, int64_t k, Matrix<const BF16> a, Matrix<const BF16> b, Matrix<Out> c) {
  constexpr size_t kMost = 512;  // shapes change only with the batch; bounds the cache of programs that sweep them
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

}  // namespace

template <class Out>
void GemmBf16(int64_t m, int64_t n, int64_t k, Matrix<const BF16> a, Matrix<const BF16> b, Matrix<Out> c) {
  static thread_local Kept kept;
  if (m == 1 && a.column != 1) a = AdjacentRow(a, k, kept.row);
  // A single row or column may have any stride. With 1, oneDNN would take it for a transposed matrix, and refuse to
  // run.
  if (m == 1) a.row = std::max(a.row, k), c.row = std::max(c.row, n);
  if (n == 1 && b.row == 1) b.column = std::max(b.column, k);
  if (n != 1 || m == 1 || c.row == 1) return Multiply(kept, m, n, k, a, b, c);
  auto& column = std::get<std::vector<Out>>(kept.columns);
  column.resize(size_t(m));
  Multiply(kept, m, n, k, a, b, Matrix<Out>{column.data(), 1, 1});
  for (int64_t i = 0; i < m; i++) c.data[i * c.row] = column[size_t(i)];
}
template void GemmBf16(int64_t, int64_t, int64_t, Matrix<const BF16>, Matrix<const BF16>, Matrix<BF16>);
template void GemmBf16(int64_t, int64_t, int64_t, Matrix<const BF16>, Matrix<const BF16>, Matrix<float>);

}  // namespace weft::cpu
