// Every build has planned rows for GPUs, so that it can make plans for them. These tests compare them with the rows of
// the CUDA library: the ops and their properties are the same, and so are the workspaces and answers over a sweep of
// calls. They need no GPU.
#include "weft/kernels/cuda/plan/planned_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "harness.h"
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::test {
namespace {

// A call as a plan makes it: its views have no data.
struct Call {
  Op op;
  Attrs attrs;
  std::vector<TensorView> in, out;
};

TensorView View(DType dtype, const Shape& shape) { return MakeView(nullptr, dtype, shape); }

const DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Adds norms of x with `rows` rows of `columns`, and their gradients. x also stands in for y and dy.
void AddNorms(std::vector<Call>& calls, DType dtype, int64_t rows, int64_t columns) {
  DType wide = AccumulateType(dtype);
  TensorView x = View(dtype, {rows, columns}), w = View(wide, {columns}), s = View(wide, {rows});
  Attrs eps{{"eps", 1e-5}};
  calls.push_back({Op::kRmsNorm, eps, {x, w}, {x, s}});
  calls.push_back({Op::kRmsNormGrad, eps, {x, w, s, x}, {x, w}});
  calls.push_back({Op::kRmsNormGradAdd, eps, {x, w, s, x, x}, {x, w}});
  calls.push_back({Op::kLayerNorm, eps, {x, w, w}, {x, s, s}});
  calls.push_back({Op::kLayerNormGrad, eps, {x, w, s, s, x}, {x, w, w}});
  calls.push_back({Op::kLayerNormGradAdd, eps, {x, w, s, s, x, x}, {x, w, w}});
}

void AddLosses(std::vector<Call>& calls, DType dtype, int64_t rows, int64_t vocab) {
  DType wide = AccumulateType(dtype);
  TensorView logits = View(dtype, {rows, vocab}), t = View(DType::kI32, {rows}), s = View(wide, {rows});
  Attrs attrs{{"ignore_index", -100}, {"smoothing", 0.0}};
  calls.push_back({Op::kCrossEntropy, attrs, {logits, t}, {s, s}});
  for (int64_t width : {8, 64}) {
    TensorView x = View(dtype, {rows, width}), w = View(dtype, {vocab, width}), dw = View(wide, {vocab, width});
    calls.push_back({Op::kLinearCrossEntropy, attrs, {x, w, t}, {s}});
    calls.push_back({Op::kLinearCrossEntropyGrad, attrs, {x, w, t, s}, {s, x, dw}});
  }
}

void AddReductions(std::vector<Call>& calls, DType dtype, const Shape& shape) {
  TensorView x = View(dtype, shape);
  for (int dim = 0; dim < x.rank; dim++) {
    Shape kept = shape;
    kept.erase(kept.begin() + dim);
    for (Op op : {Op::kReduceSum, Op::kReduceMax, Op::kReduceMin, Op::kReduceProd})
      calls.push_back({op, {{"dim", int64_t(dim)}}, {x}, {View(dtype, kept)}});
  }
  calls.push_back({Op::kSumOfSquares, {}, {x}, {View(AccumulateType(dtype), {})}});
}

void AddProducts(std::vector<Call>& calls, DType dtype, int64_t m, int64_t n, int64_t k) {
  auto add = [&](const char* eq, const Shape& a, const Shape& b, const Shape& out) {
    calls.push_back({Op::kEinsum, {{"eq", eq}}, {View(dtype, a), View(dtype, b)}, {View(dtype, out)}});
    for (bool residual : {false, true}) {
      Call linear{Op::kLinear,
                  {{"eq", eq}, {"bias", 0}, {"residual", residual}, {"wide", 0}},
                  {View(dtype, a), View(dtype, b)},
                  {View(dtype, out)}};
      if (residual) linear.in.push_back(View(dtype, out));
      calls.push_back(std::move(linear));
    }
  };
  calls.push_back({Op::kLinearSwiGluGrad,
                   {{"eq", "mk,nk->mn"}},
                   {View(dtype, {m, k}), View(dtype, {n, k}), View(dtype, {m, n}), View(dtype, {m, n})},
                   {View(dtype, {m, n}), View(dtype, {m, n})}});
  calls.push_back({Op::kLinearGeluGrad,
                   {{"eq", "mk,nk->mn"}},
                   {View(dtype, {m, k}), View(dtype, {n, k}), View(dtype, {m, n})},
                   {View(dtype, {m, n})}});
  add("mk,kn->mn", {m, k}, {k, n}, {m, n});
  add("mk,kn->mn", {4, 64}, {64, 256}, {4, 256});  // of few rows
  add("mk,nk->mn", {m, k}, {n, k}, {m, n});
  add("km,kn->nm", {k, m}, {k, n}, {n, m});
  add("bmk,bkn->bmn", {3, m, k}, {3, k, n}, {3, m, n});
  add("mbk,kbn->nbm", {m, 3, k}, {k, 3, n}, {n, 3, m});
  add("k,k->", {k}, {k}, {});
  add("mk,mk->m", {m, k}, {m, k}, {m});
}

void AddAttention(std::vector<Call>& calls, DType dtype, int64_t tokens, int64_t heads, int64_t kv_heads,
                  int64_t size) {
  TensorView q = View(dtype, {2, tokens, heads, size}), k = View(dtype, {2, tokens, kv_heads, size}),
             lse = View(AccumulateType(dtype), {2, tokens, heads});
  for (int causal : {0, 1}) {
    calls.push_back({Op::kSdpa, {{"causal", causal}}, {q, k, k}, {q, lse}});
    calls.push_back({Op::kSdpaGrad, {{"causal", causal}}, {q, k, k, q, lse, q}, {q, k, k}});
    for (const Attrs::Item& option : {Attrs::Item{"left", 3}, {"softcap", 2.0}, {"causal_offset", 7}}) {
      Attrs attrs{{"causal", causal}, option};
      calls.push_back({Op::kSdpa, attrs, {q, k, k}, {q, lse}});
      calls.push_back({Op::kSdpaGrad, attrs, {q, k, k, q, lse, q}, {q, k, k}});
    }
    TensorView segments = View(DType::kI64, {2, tokens}), bias = View(dtype, {1, heads, tokens, tokens});
    Attrs documents{{"causal", causal}, {"segments", 1}}, biased{{"causal", causal}, {"bias", 1}};
    calls.push_back({Op::kSdpa, documents, {q, k, k, segments, segments}, {q, lse}});
    calls.push_back({Op::kSdpaGrad, documents, {q, k, k, q, lse, q, segments, segments}, {q, k, k}});
    TensorView lengths = View(DType::kI64, {2});
    Attrs padded{{"causal", causal}, {"lengths", 1}};
    calls.push_back({Op::kSdpa, padded, {q, k, k, lengths}, {q, lse}});
    calls.push_back({Op::kSdpaGrad, padded, {q, k, k, q, lse, q, lengths}, {q, k, k}});
    calls.push_back({Op::kSdpa, biased, {q, k, k, bias}, {q, lse}});
    calls.push_back({Op::kSdpaGrad, biased, {q, k, k, q, lse, q, bias}, {q, k, k, bias}});
  }
  calls.push_back({Op::kRope, {{"theta", 1e4}}, {q}, {q}});
  calls.push_back({Op::kRope, {{"theta", 1e4}, {"rotated", size / 4 * 2}}, {q}, {q}});
  calls.push_back({Op::kRope, {{"theta", 1e4}}, {q, View(DType::kI64, {2})}, {q}});
}

void AddEmbeddings(std::vector<Call>& calls, DType dtype, int64_t ids, int64_t rows, int64_t columns) {
  calls.push_back({Op::kEmbeddingGrad,
                   {},
                   {View(DType::kI32, {ids}), View(dtype, {ids, columns})},
                   {View(AccumulateType(dtype), {rows, columns})}});
}

void AddIndexing(std::vector<Call>& calls, DType dtype, int64_t lines, int64_t extent, int64_t ids) {
  TensorView x = View(dtype, {lines, extent}), index = View(DType::kI64, {lines, ids}), src = View(dtype, {lines, ids});
  for (Op op : {Op::kScatter, Op::kScatterAdd}) calls.push_back({op, {{"dim", 1}}, {x, index, src}, {x}});
  int64_t kept = std::min(ids, extent);
  TensorView values = View(dtype, {lines, kept}), indices = View(DType::kI64, {lines, kept});
  calls.push_back({Op::kTopK, {{"dim", 1}, {"length", kept}}, {x}, {values, indices}});
  calls.push_back({Op::kSort, {{"dim", 1}, {"descending", 1}}, {x}, {x, View(DType::kI64, {lines, extent})}});
}

std::vector<Call> Calls() {
  std::vector<Call> calls;
  for (DType dtype : kFloats) {
    for (int64_t rows : {0, 1, 5, 64, 4096})
      for (int64_t columns : {1, 7, 64, 768, 1000, 5120, 16384}) AddNorms(calls, dtype, rows, columns);
    for (int64_t rows : {1, 8, 1000, 40000})
      for (int64_t vocab : {2, 50257, 128256}) AddLosses(calls, dtype, rows, vocab);
    for (const Shape& shape :
         {Shape{1}, Shape{5000}, Shape{64, 3}, Shape{3, 4096}, Shape{100000, 40}, Shape{8, 256, 768}})
      AddReductions(calls, dtype, shape);
    for (int64_t m : {1, 16, 640})
      for (int64_t n : {1, 24, 512})
        for (int64_t k : {1, 9, 64, 20000}) AddProducts(calls, dtype, m, n, k);
    for (int64_t tokens : {1, 64, 1000, 16384})
      for (int64_t size : {1, 64, 80, 128, 256, 512}) {
        AddAttention(calls, dtype, tokens, 8, 8, size);
        AddAttention(calls, dtype, tokens, 8, 2, size);
      }
    for (int64_t ids : {0, 1, 2048, 2049, 65536})
      for (int64_t rows : {1, 511, 512, 50257}) AddEmbeddings(calls, dtype, ids, rows, 96);
    for (int64_t lines : {0, 1, 300})
      for (int64_t extent : {1, 1000, 50257})
        for (int64_t ids : {0, 1, 256, 257, 5000}) AddIndexing(calls, dtype, lines, extent, ids);
  }
  return calls;
}

// Returns what a row answers, or the message of the error that it throws.
template <class Answer>
std::string Asked(const Call& call, const Context& context, Answer (*ask)(const KernelCall&)) {
  try {
    return fmt::format("{}", ask({&call.attrs, call.in, call.out, nullptr, 0, &context, nullptr}));
  } catch (const Error& e) {
    return e.what();
  }
}

class PlannedRows : public testing::Test {
 protected:
  void SetUp() override {
    cuda::AddPlannedRows(planned_.kernels(DeviceKind::kCuda));
    if (absl::Status s = OpenCudaKernels(built_.kernels(DeviceKind::kCuda)); !s.ok()) GTEST_SKIP() << s;
  }
  const KernelRow& Planned(Op op) const { return planned_.kernels(DeviceKind::kCuda).Row(op); }
  const KernelRow& Built(Op op) const { return built_.kernels(DeviceKind::kCuda).Row(op); }

  Context planned_{0, 1}, built_{0, 1};
};

TEST_F(PlannedRows, HaveTheFactsOfTheLibrary) {
  for (int i = 0; i < kNumOps; i++) {
    Op op = Op(i);
    bool has = planned_.kernels(DeviceKind::kCuda).Has(op);
    EXPECT_EQ(has, built_.kernels(DeviceKind::kCuda).Has(op)) << Name(op);
    if (!has) continue;
    const KernelRow &planned = Planned(op), &built = Built(op);
    EXPECT_EQ(planned.any_strides, built.any_strides) << Name(op);
    EXPECT_EQ(planned.in_place, built.in_place) << Name(op);
    EXPECT_EQ(planned.run_many != nullptr, built.run_many != nullptr) << Name(op);
    EXPECT_EQ(planned.workspace != nullptr, built.workspace != nullptr) << Name(op);
    EXPECT_EQ(planned.explain != nullptr, built.explain != nullptr) << Name(op);
  }
}

TEST_F(PlannedRows, HaveTheWorkspacesAndAnswersOfTheLibrary) {
  std::set<Op> seen;
  for (Numerics numerics : {Numerics{}, Numerics{.deterministic = false}, Numerics{.tf32 = true},
                            Numerics{.logit_bytes = 1 << 16}, Numerics{.attention = "flash"}}) {
    planned_.set_numerics(numerics);
    built_.set_numerics(numerics);
    for (const Call& call : Calls()) {
      const KernelRow &planned = Planned(call.op), &built = Built(call.op);
      ASSERT_TRUE(planned.workspace) << Name(call.op);
      std::string what = fmt::format("{} {} {}", Name(call.op), Name(call.in[0].dtype), ToString(call.attrs));
      EXPECT_EQ(Asked(call, planned_, planned.workspace), Asked(call, built_, built.workspace)) << what;
      if (planned.explain) {
        EXPECT_EQ(Asked(call, planned_, planned.explain), Asked(call, built_, built.explain)) << what;
      }
      seen.insert(call.op);
    }
  }
  for (int i = 0; i < kNumOps; i++) {
    bool sized = planned_.kernels(DeviceKind::kCuda).Has(Op(i)) && Planned(Op(i)).workspace;
    EXPECT_EQ(sized, seen.contains(Op(i))) << Name(Op(i)) << ": every workspace is in the sweep";
  }
}

// In every build, a planned row cannot run, and a kernel without a planned row is refused.
TEST(PlannedRow, RunsNothing) {
  KernelTable table;
  cuda::AddPlannedRows(table);
  EXPECT_THROW(table.Row(Op::kAdd).run({}), Error);
  EXPECT_THROW(cuda::CheckAllRun(table), Error);
  auto run = [](const KernelCall&) {};
  auto run_many = [](std::span<const KernelCall>) {};
  EXPECT_THROW(cuda::SetRun(table, Op::kReshard, run), Error) << "it has no row";
  EXPECT_THROW(cuda::SetRun(table, Op::kAdd, run, run_many), Error) << "its row says that calls run one by one";
  EXPECT_THROW(cuda::SetRun(table, Op::kAdamW, run), Error) << "its row says that calls run together";
  cuda::SetRun(table, Op::kAdd, run);
  EXPECT_THROW(cuda::SetRun(table, Op::kAdd, run), Error) << "it has a kernel";
  table.Row(Op::kAdd).run({});
}

}  // namespace
}  // namespace weft::test
