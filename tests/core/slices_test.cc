// Kernel rows with `slices` give the same numbers if an operand or a result is a slice of a larger tensor, and write
// nothing next to it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/harness.h"
#include "parallel/sweep.h"
#include "weft/core/ir/record.h"

namespace weft {
namespace {

using test::Box;

// Libraries may add the terms of a product, or of attention, in another order if rows are further apart. So results
// differ by some roundings of the compute type, and then by one of their own type. Others have the same bits.
double ToleranceOf(Op op, DType dtype) { return Record(op).products > 0 ? test::Tolerance(dtype, 16) : 0; }

struct Call {
  Op op;
  Attrs attrs;
  std::vector<Box> in, out;
};

Call CallOf(Op op, const Sample& sample, DType dtype) {
  Call call{op, sample.attrs, {}, {}};
  Node node{.op = op, .attrs = sample.attrs};
  std::vector<Tensor> drawn = sweep::SampleValues(sample, 29);
  for (size_t i = 0; i < drawn.size(); i++) {
    DType own = !IsFloating(drawn[i].dtype())      ? drawn[i].dtype()
                : sample.inputs[i].accumulate_type ? AccumulateType(dtype)
                                                   : dtype;
    call.in.emplace_back(own, drawn[i].shape()).SetAll(drawn[i].ToDoubles());
    auto leaf = std::make_shared<Node>();
    leaf->outputs.push_back({own, drawn[i].shape(), {}, {}});
    node.inputs.emplace_back(std::move(leaf), 0);
  }
  Record(op).infer(node);
  for (const ValueInfo& out : node.outputs) call.out.emplace_back(out.dtype, out.shape);
  return call;
}

// Returns the box as the first elements of dim `dim` of a larger tensor, whose rows are aligned.
Box Sliced(const Box& box, int dim) {
  int64_t row = int64_t(SizeOf(box.view.dtype));
  for (int d = dim + 1; d < box.view.rank; d++) row *= box.view.dim(d).extent;
  Shape padding(size_t(box.view.rank), 0);
  int64_t& more = padding[size_t(dim)];
  do more++;
  while (row > 0 && (box.view.dim(dim).extent + more) * row % kSliceAlign != 0);
  Box slice(box.view.dtype, box.shape(), padding);
  for (int d = 0; d < slice.view.rank; d++) slice.view.dims[size_t(d)].capacity = slice.view.dim(d).extent;
  return slice;
}

void RunKernel(Call& call) {
  std::vector<const Box*> in;
  std::vector<Box*> out;
  for (const Box& box : call.in) in.push_back(&box);
  for (Box& box : call.out) out.push_back(&box);
  test::RunKernel(call.op, call.attrs, in, out);
}

void ExpectSame(const Call& got, const Call& want, const std::string& what) {
  for (size_t i = 0; i < want.out.size(); i++) {
    std::vector<double> values = want.out[i].All();
    double largest = 1;
    for (double v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    SCOPED_TRACE(what);
    test::ExpectClose(got.out[i], values, ToleranceOf(want.op, want.out[i].view.dtype), largest);
  }
}

class Slices : public testing::TestWithParam<int> {};

TEST_P(Slices, OfOperandsAndResultsChangeNothing) {
  Op op = Op(GetParam());
  if (!test::Table().Has(op) || !test::Table().Row(op).slices) return;
  for (const Sample& sample : Record(op).samples(op))
    for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      Call want = CallOf(op, sample, dtype);
      Call bare = want;
      RunKernel(want);
      for (auto boxes : {&Call::in, &Call::out})
        for (size_t i = 0; i < (bare.*boxes).size(); i++)
          for (int dim = 0; dim < (bare.*boxes)[i].view.rank; dim++) {
            Call sliced = bare;
            Box& box = (sliced.*boxes)[i];
            if (box.count() == 0) continue;
            std::vector<double> values = box.All();
            box = Sliced(box, dim);
            if (boxes == &Call::in) box.SetAll(values);
            RunKernel(sliced);
            ExpectSame(sliced, want,
                       fmt::format("{} {} {}: {} {} sliced along dim {}", Name(op), Name(dtype), ToString(sample.attrs),
                                   boxes == &Call::in ? "operand" : "result", i, dim));
          }
    }
}

INSTANTIATE_TEST_SUITE_P(All, Slices, testing::Range(0, kNumOps),
                         [](const auto& test) { return std::string(Name(Op(test.param))); });

}  // namespace
}  // namespace weft
