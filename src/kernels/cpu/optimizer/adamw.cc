// AdamW over one parameter.
#include <cmath>

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/optimizer/update.h"

namespace weft::cpu {
namespace {

template <class C>
struct AdamWRule {
  C lr, scale, beta1, beta2, rest1, rest2, correct1, correct2, eps, weight_decay;

  explicit AdamWRule(const KernelCall& call) {
    UpdateScalars<C> scalars(call);
    double b1 = call.attrs->Float("beta1"), b2 = call.attrs->Float("beta2");
    lr = scalars.lr;
    scale = scalars.scale;
    beta1 = C(b1);
    beta2 = C(b2);
    rest1 = C(1 - b1);
    rest2 = C(1 - b2);
    correct1 = C(1 / (1 - std::pow(b1, scalars.t)));
    correct2 = C(1 / (1 - std::pow(b2, scalars.t)));
    eps = C(call.attrs->Float("eps"));
    weight_decay = C(call.attrs->Float("weight_decay"));
  }

  void Row(int64_t n, const C* const* x, C* const* y) const {
    const AdamWRule k = *this;
    const C *p = x[0], *m = x[1], *v = x[2], *g = x[3];
    C *new_p = y[0], *new_m = y[1], *new_v = y[2];
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
};

}  // namespace

void AddAdamW(KernelTable& table) {
  table.Add(Op::kAdamW, {.run = &Update<AdamWRule>, .any_strides = true, .slices = true, .in_place = true});
}

}  // namespace weft::cpu
