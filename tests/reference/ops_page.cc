#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "reference/pages.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ops/ops.h"
#include "weft/kernels/cuda/plan/planned_rows.h"

namespace weft::reference {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string Linear(int linear) { return linear ? "yes" : "no"; }

std::string Elementwise() {
  Rows one, two, boolean;
#define WEFT_ONE(Name, text, linear, integers, value, derivative, ...) \
  one.push_back({Code(text), Code(#value), Code(#derivative), Linear(linear)});
  WEFT_UNARY_OPS(WEFT_ONE)
  WEFT_SCALAR_OPS(WEFT_ONE)
#undef WEFT_ONE
#define WEFT_TWO(Name, text, linear, integers, value, of_a, of_b, ...) \
  two.push_back({Code(text), Code(#value), Code(#of_a), Code(#of_b), Linear(linear)});
  WEFT_BINARY_OPS(WEFT_TWO)
#undef WEFT_TWO
#define WEFT_BOOLEAN(Name, text, value) boolean.push_back({Code(text), Code(#value)});
  WEFT_COMPARE_OPS(WEFT_BOOLEAN)
  WEFT_LOGIC_OPS(WEFT_BOOLEAN)
#undef WEFT_BOOLEAN
  return "\n## Elementwise ops\n\n`a` and `b` are the operands, `k` is a constant and `y` is the result.\n"
         "The operands of a linear op may be Partial, because it commutes with a sum over ranks.\n"
         "All of these ops have kernels for CPUs and GPUs.\n\n" +
         Table({"op", "value", "derivative", "linear"}, one) + "\n" +
         Table({"op", "value", "derivative of a", "derivative of b", "linear"}, two) + "\n" +
         Table({"op", "value, a bool"}, boolean);
}

// The ops that the tables of labels leave out.
std::string Others() {
  Rows rows;
  std::vector<std::string> described, all;
  for (auto [name, meaning] : std::initializer_list<std::pair<const char*, const char*>>{
           {"leaf", "an input of the program, or an entry of the State"},
           {"full", "a tensor of one value"},
           {"iota", "the index along one dim"},
           {"reshard", "the operand in other placements; a point at which a sharding plan applies"},
           {"not", "the negation of a bool"},
           {"select", "the second operand if the first, a bool, is true, and else the third"},
           {"cast", "the operand in another type"},
           {"stop_gradient", "the operand, with no gradient"}}) {
    rows.push_back({Code(name), meaning});
    described.emplace_back(name);
  }
#define WEFT_NAME(Name, text) all.emplace_back(text);
  WEFT_LEAF_OPS(WEFT_NAME)
  WEFT_OTHER_ELEMENTWISE_OPS(WEFT_NAME)
#undef WEFT_NAME
  ExpectSame("ops without labels", described, all);
  return "\n### Leaves and choices\n\nDeclared in `src/core/ops/leaf.h` and `src/core/ops/math.h`.\n\n" +
         Table({"op", "result"}, rows);
}

// Returns the dims of the op's first sample.
Dims DimsOf(Op op) {
  Dims dims;
  Sample sample = Record(op).samples(op).at(0);
  test::Trace([&] {
    std::vector<Var> in;
    std::vector<Tensor> values = sweep::SampleValues(sample, 1);
    for (size_t i = 0; i < values.size(); i++)
      in.push_back(Leaf(fmt::format("in{}", i), values[i].dtype(), values[i].shape()));
    Outputs out = CurrentBuilder().Emit(op, sample.attrs, in, Loc::current());
    dims = Record(op).dims(out[0].node());
    return test::Traced{.outputs = {{"y", out[0]}}};
  });
  return dims;
}

// Returns "abc, ()": a scalar has no labels.
template <class Labels>
std::string Joined(const Labels& operands) {
  std::string text;
  for (const std::string& labels : operands) text += (text.empty() ? "" : ", ") + (labels.empty() ? "()" : labels);
  return text;
}

std::vector<std::string> RowOf(Op op, const KernelTable& gpu) {
  const OpRecord& record = Record(op);
  Dims dims = DimsOf(op);
  std::string whole;
  for (char label : dims.blocked) whole += fmt::format("{}{}", whole.empty() ? "" : ", ", label);
  for (char label : dims.whole) whole += fmt::format("{}{} (or composed)", whole.empty() ? "" : ", ", label);
  const KernelTable& cpu = test::KernelsOf(DeviceKind::kCpu);
  std::string kernels = cpu.Has(op) && gpu.Has(op) ? "CPU, GPU" : cpu.Has(op) ? "CPU" : gpu.Has(op) ? "GPU" : "none";
  return {Code(Name(op)),
          Code(fmt::format("{} -> {}", fmt::join(dims.in, ", "), fmt::join(dims.out, ", "))),
          whole,
          record.grad ? "own" : "of the composition",
          record.fallback ? "yes" : "no",
          kernels};
}

}  // namespace

std::string OpsPage(const Places&) {
  KernelTable gpu;
  cuda::AddPlannedRows(gpu);
  std::string text = Heading("Ops",
                             "Ops are a closed set.\n[Add an op](../guide/add-an-op.md) explains the columns.\n"
                             "Functions that compose these ops, such as `Softmax` and `MseLoss`, are declared in "
                             "`src/core/ops/functions.h` and `src/core/ops/losses.h`.");
  text += Elementwise();
  text +=
      "\n## Other ops\n\nThe labels are those of one sample, as in an einsum: a label that no result has is summed "
      "over, and an axis may shard any label except those in the next column.\n"
      "\"Or composed\": if such a label is sharded, the op runs as its composition of other ops.\n"
      "A sum over a sharded label gives a Partial.\n"
      "An op without a kernel for a device runs as its composition there.\n";
  std::vector<std::string> described, all;
#define WEFT_NAME(Name, text, ...) described.emplace_back(text);
#define WEFT_ROW(Name, text) WEFT_NAME(Name, text) rows.push_back(RowOf(Op::k##Name, gpu));
#define WEFT_SECTION(title, file, OPS)                                                          \
  {                                                                                             \
    Rows rows;                                                                                  \
    OPS(WEFT_ROW)                                                                               \
    text += fmt::format("\n### {}\n\nDescribed in `src/core/ops/{}`.\n\n", title, file);        \
    text += Table({"op", "labels", "not sharded", "gradient", "composition", "kernels"}, rows); \
  }
  WEFT_SECTION("Products", "einsum.h", WEFT_EINSUM_OPS)
  WEFT_SECTION("Reductions", "reduce.h", WEFT_REDUCE_OPS)
  WEFT_SECTION("Shapes", "structural.h", WEFT_STRUCTURAL_OPS)
  WEFT_SECTION("Random numbers", "random.h", WEFT_RANDOM_OPS)
  WEFT_SECTION("Embedding", "embedding.h", WEFT_EMBEDDING_OPS)
  WEFT_SECTION("Indexing", "indexing.h", WEFT_INDEXING_OPS)
  WEFT_SECTION("Sorting", "sort.h", WEFT_SORT_OPS)
  WEFT_SECTION("Norms", "norm.h", WEFT_NORM_OPS)
  WEFT_SECTION("Attention", "attention.h", WEFT_ATTENTION_OPS)
  WEFT_SECTION("Losses", "loss.h", WEFT_LOSS_OPS)
  WEFT_SECTION("Optimizers", "optimizer_ops.h", WEFT_OPTIMIZER_OPS)
  WEFT_SECTION("Fused ops", "fused.cc", WEFT_FUSED_OPS)
#undef WEFT_SECTION
#undef WEFT_ROW
  WEFT_LEAF_OPS(WEFT_NAME)        // Others
  WEFT_COLLECTIVE_OPS(WEFT_NAME)  // the page of collectives
#undef WEFT_NAME
#define WEFT_NAME(Name, text, ...) all.emplace_back(text);
  WEFT_FAMILIES(WEFT_NAME)
#undef WEFT_NAME
  ExpectSame("ops of families", described, all);
  return text + Others();
}

}  // namespace weft::reference
