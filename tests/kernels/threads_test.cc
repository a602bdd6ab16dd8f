// Results do not depend on the number of threads: outputs are bit-equal for 1, 2, 3 and 7 threads. Ranks that are
// threads of one process do not disturb each other.
#include "harness.h"

#include <thread>

namespace weft::test {
namespace {

// Runs the op with each number of threads, into copies of `out`, and compares the bytes of the outputs.
void ExpectBitEqual(Op op, const Attrs& attrs, std::vector<const Box*> in, const std::vector<Box>& out) {
  std::vector<std::vector<Box>> results;
  for (int threads : {1, 2, 3, 7}) {
    results.push_back(out);
    std::vector<Box*> pointers;
    for (Box& box : results.back()) pointers.push_back(&box);
    RunKernel(op, attrs, in, pointers, threads);
    for (size_t i = 0; i < out.size(); i++)
      ASSERT_EQ(std::memcmp(results[0][i].storage.data(), results.back()[i].storage.data(), out[i].storage.size()), 0)
          << Name(op) << " output " << i << " with " << threads << " threads, " << Name(out[i].view.dtype);
  }
}

class Threads : public testing::TestWithParam<DType> {
 protected:
  Rng rng{101};
  DType dtype = GetParam(), wide = AccumulateType(GetParam());
  Box In(const Shape& shape) { return RandomBox(rng, dtype, shape); }
  Box Out(const Shape& shape) { return Box(dtype, shape); }
  Box Wide(const Shape& shape) { return Box(wide, shape); }
};

// Ranks may be threads of one process. What one rank sets for its launch must not fail a launch of another rank.
TEST_P(Threads, RanksLaunchOneKernelWithOtherSizes) {
  std::vector<std::thread> ranks;
  for (int64_t width : {64, 2048, 64, 1024})
    ranks.emplace_back([width, t = dtype, w = wide] {
      std::unique_ptr<Context> context = NewContext(1);
      Rng own{uint64_t(width)};
      auto in = [&own](DType type, const Shape& shape) {
        Box box(type, shape);
        for (int64_t i = 0; i < box.count(); i++) box.Set(i, double(Pick(own, 1, 9)) / 4);
        return box;
      };
      Box x = in(t, {3, width}), weight = in(w, {width}), rstd = in(w, {3}), dy = in(t, {3, width});
      Box dx(t, {3, width}), dw(w, {width});
      Job job{{{"eps", 1e-5}}, {&x, &weight, &rstd, &dy}, {&dx, &dw}};
      DeviceStorage storage(context->device(KindUnderTest()));
      PlacedJob placed(Op::kRmsNormGrad, job, *context, storage);
      for (int i = 0; i < 300; i++)
        ASSERT_NO_THROW(context->kernels(KindUnderTest()).Row(Op::kRmsNormGrad).run(placed.call));
      context->device(KindUnderTest()).Synchronize();
    });
  for (std::thread& rank : ranks) rank.join();
}

TEST_P(Threads, Elementwise) {
  Box a = In({70, 1001}), b = RandomBox(rng, dtype, {70, 1001}, 0.5, 2);
  for (Op op : {Op::kExp, Op::kTanh, Op::kGelu, Op::kGeluD, Op::kSilu, Op::kSiluD})
    ExpectBitEqual(op, {}, {&a}, {Out({70, 1001})});
  for (Op op : {Op::kAdd, Op::kDiv, Op::kSwiGlu}) ExpectBitEqual(op, {}, {&a, &b}, {Out({70, 1001})});
}

TEST_P(Threads, Reductions) {
  Box a = In({70, 1001}), tall = In({9001, 7});
  for (int dim : {0, 1}) {
    ExpectBitEqual(Op::kReduceSum, {{"dim", dim}}, {&a}, {Out({dim ? 70 : 1001})});
    ExpectBitEqual(Op::kReduceSum, {{"dim", dim}}, {&tall}, {Out({dim ? 9001 : 7})});
  }
  ExpectBitEqual(Op::kSumOfSquares, {}, {&a}, {Wide({})});
}

TEST_P(Threads, Products) {
  Box a = In({700, 65}), b = In({65, 90}), w = In({65, 600}), x = In({6, 50, 4, 16}), y = In({6, 50, 4, 16});
  ExpectBitEqual(Op::kEinsum, {{"eq", "mk,kn->mn"}}, {&a, &b}, {Out({700, 90})});
  ExpectBitEqual(Op::kEinsum, {{"eq", "mk,kn->nm"}}, {&a, &b}, {Out({90, 700})});
  ExpectBitEqual(Op::kEinsum, {{"eq", "km,kn->mn"}}, {&b, &w}, {Out({90, 600})});
  ExpectBitEqual(Op::kEinsum, {{"eq", "bthd,bshd->bhts"}}, {&x, &y}, {Out({6, 4, 50, 50})});
}

TEST_P(Threads, NormsAndLoss) {
  Box x = In({300, 65}), dy = In({300, 65}), w = RandomBox(rng, wide, {65}), bias = RandomBox(rng, wide, {65});
  Box mean = RandomBox(rng, wide, {300}), rstd = RandomBox(rng, wide, {300}), dloss = RandomBox(rng, wide, {300}),
      lse = RandomBox(rng, wide, {300}, 3, 4);
  Attrs eps{{"eps", 1e-5}}, loss{{"ignore_index", -100}, {"smoothing", 0.1}};
  ExpectBitEqual(Op::kRmsNorm, eps, {&x, &w}, {Out({300, 65}), Wide({300})});
  ExpectBitEqual(Op::kRmsNormGrad, eps, {&x, &w, &rstd, &dy}, {Out({300, 65}), Wide({65})});
  ExpectBitEqual(Op::kLayerNorm, eps, {&x, &w, &bias}, {Out({300, 65}), Wide({300}), Wide({300})});
  ExpectBitEqual(Op::kLayerNormGrad, eps, {&x, &w, &mean, &rstd, &dy}, {Out({300, 65}), Wide({65}), Wide({65})});
  Box targets = RandomBox(rng, DType::kI32, {300}, 0, 64);
  ExpectBitEqual(Op::kCrossEntropy, loss, {&x, &targets}, {Wide({300}), Wide({300})});
  ExpectBitEqual(Op::kCrossEntropyGrad, loss, {&x, &targets, &lse, &dloss}, {Out({300, 65})});
}

TEST_P(Threads, Attention) {
  Box q = In({3, 70, 4, 24}), k = In({3, 70, 2, 24}), v = In({3, 70, 2, 24}), dout = In({3, 70, 4, 24}),
      out = Out({3, 70, 4, 24}), lse = Wide({3, 70, 4});
  Attrs attrs{{"causal", 1}, {"causal_offset", 0}, {"scale", 0.2}};
  ExpectBitEqual(Op::kSdpa, attrs, {&q, &k, &v}, {Out({3, 70, 4, 24}), Wide({3, 70, 4})});
  RunKernel(Op::kSdpa, attrs, {&q, &k, &v}, {&out, &lse});
  ExpectBitEqual(Op::kSdpaGrad, attrs, {&q, &k, &v, &out, &lse, &dout},
                 {Out({3, 70, 4, 24}), Out({3, 70, 2, 24}), Out({3, 70, 2, 24})});
  ExpectBitEqual(Op::kRope, {{"theta", 10000.0}, {"inverse", 0}, {"start", 0}}, {&q}, {Out({3, 70, 4, 24})});
}

INSTANTIATE_TEST_SUITE_P(Types, Threads, testing::ValuesIn(Floats()),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace weft::test
