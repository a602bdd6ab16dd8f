// Shared by all parameter updates: the walk over the tensors, each of which is read and written once.
#pragma once
#include <algorithm>
#include <array>

#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// The scalar operands of an update. If t is 0, there is no update.
template <class C>
struct UpdateScalars {
  C lr, scale;
  double t;

  explicit UpdateScalars(const KernelCall& call)
      : lr(Reader<C>(call.in[call.in.size() - 3]).At(0)),
        scale(Reader<C>(call.in[call.in.size() - 2]).At(0)),
        t(double(Reader<int64_t>(call.in.back()).At(0))) {}
};

// The tensors of an update, and the nest over them: the results p and the kept tensors, then the operands p, the kept
// tensors and g, then the copy of the new p, if the call has that result.
struct UpdateNest {
  static constexpr size_t kMost = 4;  // p, two kept tensors, g
  size_t operands, results;
  bool copies;
  Nest nest;

  explicit UpdateNest(const KernelCall& call)
      : operands(call.in.size() - 3), results(operands - 1), copies(call.out.size() > results), nest(0) {
    std::array<const TensorView*, 2 * kMost> all{};
    for (size_t i = 0; i < results; i++) all[i] = &call.out[i];
    for (size_t i = 0; i < operands; i++) all[results + i] = &call.in[i];
    if (copies) all[results + operands] = &call.out[results];
    nest = Nest::Over(std::span(all).first(results + operands + (copies ? 1 : 0)));
  }
};

// Rule<C> is constructed from the call. Its Row(n, x, y) updates n elements: x holds rows of p, the kept tensors and g;
// y holds those of p and the kept tensors. Rows of x and y may be the same.
template <template <class> class Rule, class C>
void RunUpdate(const KernelCall& call) {
  constexpr size_t kMost = UpdateNest::kMost;
  const UpdateNest all(call);
  const size_t results = all.results, operands = all.operands;
  const Rule<C> rule(call);
  const bool any = UpdateScalars<C>(call).t > 0;
  std::array<Reader<C>, kMost> in;
  std::array<Writer<C>, kMost> out;
  for (size_t i = 0; i < operands; i++) in[i] = Reader<C>(call.in[i]);
  for (size_t i = 0; i < call.out.size(); i++) out[i] = Writer<C>(call.out[i]);
  ParallelFor(call, all.nest.Count(), 8192, [&](int64_t begin, int64_t end) {
    alignas(64) C tiles[2 * kMost - 1][kTile];
    ForEachRun(all.nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      auto stride = [&](size_t i) { return all.nest.inner_stride(int(i)); };
      const C* x[kMost] = {};
      C* y[kMost] = {};
      for (size_t i = 0; i < operands; i++)
        x[i] = in[i].Row(at[results + i], stride(results + i), n, tiles[results + i]);
      for (size_t i = 0; i < results; i++) y[i] = out[i].Row(at[i], stride(i), tiles[i]);
      if (any)
        rule.Row(n, x, y);
      else  // converting to C and back loses no bit
        for (size_t i = 0; i < results; i++) std::copy_n(x[i], n, y[i]);
      for (size_t i = 0; i < results; i++) out[i].Done(y[i], at[i], stride(i), n);
      if (all.copies) out[results].Copy(y[0], at[results + operands], stride(results + operands), n);
    });
  });
}

template <template <class> class Rule>
void Update(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { RunUpdate<Rule, decltype(zero)>(call); });
}

}  // namespace weft::cpu
