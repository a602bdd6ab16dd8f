// AdamW over parameters.
#include "weft/core/ops/optimizer_ops.h"

#include "weft/kernels/cuda/optimizer/update.cuh"

namespace weft::cuda {
namespace {

struct AdamWRule {
  static constexpr const char* kName = "adamw";
  static constexpr int kKept = 2;  // m, v

  struct Constants {
    double beta1, beta2, eps;
    static Constants Of(const Attrs& attrs) { return {attrs.Float("beta1"), attrs.Float("beta2"), attrs.Float("eps")}; }
    bool operator==(const Constants&) const = default;
  };

  template <class C>
  struct Coefficients : UpdateScalars<C> {
    C beta1, beta2, rest1, rest2, correct1, correct2, eps;

    __device__ explicit Coefficients(const UpdateSettings<AdamWRule>& s) : UpdateScalars<C>(s) {
      const Constants& c = s.constants;
      beta1 = C(c.beta1);
      beta2 = C(c.beta2);
      rest1 = C(1 - c.beta1);
      rest2 = C(1 - c.beta2);
      correct1 = C(1 / (1 - pow(c.beta1, this->t)));
      correct2 = C(1 / (1 - pow(c.beta2, this->t)));
      eps = C(c.eps);
    }
    __device__ __forceinline__ void Update(C& p, C* kept, C g) const {
      C &m = kept[0], &v = kept[1];
      g *= this->scale;
      m = fma(beta1, m, rest1 * g);
      v = fma(beta2, v, rest2 * (g * g));
      p = fma(-this->lr, fma(this->weight_decay, p, m * correct1 / (sqrt(v * correct2) + eps)), p);
    }
  };
};

}  // namespace

void AddAdamW(KernelTable& table) { SetRun(table, Op::kAdamW, &Update<AdamWRule>, &UpdateMany<AdamWRule>); }

}  // namespace weft::cuda
