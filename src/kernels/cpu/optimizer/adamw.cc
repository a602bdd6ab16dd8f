// AdamW over one parameter: every operand is read and written once.
#include <algorithm>
#include <cmath>

#include "weft/core/ops/optimizer_ops.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

template <class C>
struct Coefficients {
  C lr, scale, beta1, beta2, rest1, rest2, correct1, correct2, eps, weight_decay;
  bool any;  // is there an update?

  explicit Coefficients(const KernelCall& call) {
    double t = double(Reader<int64_t>(call.in[6]).At(0)), b1 = call.attrs->Float("beta1"),
           b2 = call.attrs->Float("beta2");
    any = t > 0;
    lr = Reader<C>(call.in[4]).At(0);
    scale = Reader<C>(call.in[5]).At(0);
    beta1 = C(b1);
    beta2 = C(b2);
    rest1 = C(1 - b1);
    rest2 = C(1 - b2);
    correct1 = C(1 / (1 - std::pow(b1, t)));
    correct2 = C(1 / (1 - std::pow(b2, t)));
    eps = C(call.attrs->Float("eps"));
    weight_decay = C(call.attrs->Float("weight_decay"));
  }
};

// ivdep: the results may be the operands themselves.
template <class C>
void Update(const Coefficients<C>& k, int64_t n, const C* p, const C* m, const C* v, const C* g, C* new_p, C* new_m,
            C* new_v) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; i++) {
    C gradient = g[i] * k.scale;
    C mean = k.beta1 * m[i] + k.rest1 * gradient;
    C square = k.beta2 * v[i] + k.rest2 * (gradient * gradient);
    C step = mean * k.correct1 / (std::sqrt(square * k.correct2) + k.eps) + k.weight_decay * p[i];
    new_m[i] = mean;
    new_v[i] = square;
    new_p[i] = p[i] - k.lr * step;
  }
}

template <class C>
void AdamWAs(const KernelCall& call) {
  const TensorView* views[] = {&call.out[0], &call.out[1], &call.out[2], &call.in[0],
                               &call.in[1],  &call.in[2],  &call.in[3]};
  Nest nest = Nest::Over(views);
  Coefficients<C> k(call);
  Reader<C> in[4];
  Writer<C> out[3];
  for (size_t i = 0; i < 4; i++) in[i] = Reader<C>(call.in[i]);
  for (size_t i = 0; i < 3; i++) out[i] = Writer<C>(call.out[i]);
  ParallelFor(call, nest.Count(), 8192, [&](int64_t begin, int64_t end) {
    alignas(64) C tiles[7][kTile];
    ForEachRun(nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      const C* x[4];
      C* y[3];
      for (size_t i = 0; i < 4; i++) x[i] = in[i].Row(at[i + 3], nest.inner_stride(int(i) + 3), n, tiles[i]);
      for (size_t i = 0; i < 3; i++) y[i] = out[i].Row(at[i], nest.inner_stride(int(i)), tiles[i + 4]);
      if (k.any)
        Update(k, n, x[0], x[1], x[2], x[3], y[0], y[1], y[2]);
      else  // to C and back no bit is lost
        for (size_t i = 0; i < 3; i++) std::copy_n(x[i], n, y[i]);
      for (size_t i = 0; i < 3; i++) out[i].Done(y[i], at[i], nest.inner_stride(int(i)), n);
    });
  });
}

void AdamW(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { AdamWAs<decltype(zero)>(call); });
}

}  // namespace

void AddAdamW(KernelTable& table) { table.Add(Op::kAdamW, {.run = &AdamW, .any_strides = true, .in_place = true}); }

}  // namespace weft::cpu
