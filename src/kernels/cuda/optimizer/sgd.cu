// Sgd over parameters, with and without momentum.
#include "weft/core/ops/optimizer_ops.h"

#include "weft/kernels/cuda/optimizer/update.cuh"

namespace weft::cuda {
namespace {

template <int kMomenta>  // 0 or 1
struct SgdRule {
  static constexpr const char* kName = "sgd";
  static constexpr int kKept = kMomenta;

  struct Constants {
    double momentum;
    bool nesterov;
    static Constants Of(const Attrs& attrs) { return {attrs.Float("momentum"), attrs.Int("nesterov") != 0}; }
    bool operator==(const Constants&) const = default;
  };

  template <class C>
  struct Coefficients : UpdateScalars<C> {
    C momentum;
    bool nesterov;

    __device__ explicit Coefficients(const UpdateSettings<SgdRule>& s)
        : UpdateScalars<C>(s), momentum(C(s.constants.momentum)), nesterov(s.constants.nesterov) {}
    __device__ __forceinline__ void Update(C& p, C* kept, C g) const {
      C step = fma(this->weight_decay, p, g * this->scale);
      if constexpr (kMomenta > 0) {
        kept[0] = fma(momentum, kept[0], step);
        step = nesterov ? fma(momentum, kept[0], step) : kept[0];
      }
      p = fma(-this->lr, step, p);
    }
  };
};

// Operands apart from the momentum: the parameter, the gradient, and three scalars.
bool KeepsMomentum(const KernelCall& call) { return call.in.size() > 5; }
void Run(const KernelCall& call) { KeepsMomentum(call) ? Update<SgdRule<1>>(call) : Update<SgdRule<0>>(call); }
// Parameters may differ in whether they keep a momentum. Consecutive calls of the same kind run together.
void RunMany(std::span<const KernelCall> calls) {
  while (!calls.empty()) {
    bool keeps = KeepsMomentum(calls[0]);
    size_t n = 1;
    while (n < calls.size() && KeepsMomentum(calls[n]) == keeps) n++;
    keeps ? UpdateMany<SgdRule<1>>(calls.first(n)) : UpdateMany<SgdRule<0>>(calls.first(n));
    calls = calls.subspan(n);
  }
}

}  // namespace

void AddSgd(KernelTable& table) { SetRun(table, Op::kSgd, &Run, &RunMany); }

}  // namespace weft::cuda
