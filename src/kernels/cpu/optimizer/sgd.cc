// Sgd over one parameter, with and without momentum.
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/optimizer/update.h"

namespace weft::cpu {
namespace {

template <class C>
struct SgdRule {
  C lr, scale, momentum, weight_decay;
  bool keeps, nesterov;

  explicit SgdRule(const KernelCall& call) {
    UpdateScalars<C> scalars(call);
    lr = scalars.lr;
    scale = scalars.scale;
    momentum = C(call.attrs->Float("momentum"));
    weight_decay = C(call.attrs->Float("weight_decay"));
    keeps = call.in.size() > 5;  // the parameter, a momentum, the gradient and three scalars
    nesterov = call.attrs->Int("nesterov") != 0;
  }

  void Row(int64_t n, const C* const* x, C* const* y) const {
    if (!keeps) return Plain(n, x, y);
    nesterov ? WithMomentum<true>(n, x, y) : WithMomentum<false>(n, x, y);
  }

 private:
  void Plain(int64_t n, const C* const* x, C* const* y) const {
    const SgdRule k = *this;
    const C *p = x[0], *g = x[1];
    C* new_p = y[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) new_p[i] = p[i] - k.lr * (g[i] * k.scale + k.weight_decay * p[i]);
  }
  template <bool kNesterov>
  void WithMomentum(int64_t n, const C* const* x, C* const* y) const {
    const SgdRule k = *this;
    const C *p = x[0], *buf = x[1], *g = x[2];
    C *new_p = y[0], *new_buf = y[1];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
      C d = g[i] * k.scale + k.weight_decay * p[i];
      C next = k.momentum * buf[i] + d;
      new_buf[i] = next;
      new_p[i] = p[i] - k.lr * (kNesterov ? d + k.momentum * next : next);
    }
  }
};

}  // namespace

void AddSgd(KernelTable& table) {
  table.Add(Op::kSgd, {.run = &Update<SgdRule>, .any_strides = true, .slices = true, .in_place = true});
}

}  // namespace weft::cpu
