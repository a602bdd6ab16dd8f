// Lion over one parameter.
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/optimizer/update.h"

namespace weft::cpu {
namespace {

template <class C>
struct LionRule {
  C lr, scale, beta1, beta2, rest1, rest2, weight_decay;

  explicit LionRule(const KernelCall& call) {
    UpdateScalars<C> scalars(call);
    double b1 = call.attrs->Float("beta1"), b2 = call.attrs->Float("beta2");
    lr = scalars.lr;
    scale = scalars.scale;
    beta1 = C(b1);
    beta2 = C(b2);
    rest1 = C(1 - b1);
    rest2 = C(1 - b2);
    weight_decay = C(call.attrs->Float("weight_decay"));
  }

  void Row(int64_t n, const C* const* x, C* const* y) const {
    const LionRule k = *this;
    const C *p = x[0], *m = x[1], *g = x[2];
    C *new_p = y[0], *new_m = y[1];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
      C gradient = g[i] * k.scale;
      C mix = k.beta1 * m[i] + k.rest1 * gradient;
      C direction = C(mix > 0) - C(mix < 0);
      new_m[i] = k.beta2 * m[i] + k.rest2 * gradient;
      new_p[i] = p[i] - k.lr * (direction + k.weight_decay * p[i]);
    }
  }
};

}  // namespace

void AddLion(KernelTable& table) {
  table.Add(Op::kLion, {.run = &Update<LionRule>, .any_strides = true, .slices = true, .in_place = true});
}

}  // namespace weft::cpu
