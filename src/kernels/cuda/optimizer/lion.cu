// Lion over parameters.
#include "weft/core/ops/optimizer_ops.h"

#include "weft/kernels/cuda/optimizer/update.cuh"

namespace weft::cuda {
namespace {

struct LionRule {
  static constexpr const char* kName = "lion";
  static constexpr int kKept = 1;  // m

  struct Constants {
    double beta1, beta2;
    static Constants Of(const Attrs& attrs) { return {attrs.Float("beta1"), attrs.Float("beta2")}; }
    bool operator==(const Constants&) const = default;
  };

  template <class C>
  struct Coefficients : UpdateScalars<C> {
    C beta1, beta2, rest1, rest2;

    __device__ explicit Coefficients(const UpdateSettings<LionRule>& s)
        : UpdateScalars<C>(s),
          beta1(C(s.constants.beta1)),
          beta2(C(s.constants.beta2)),
          rest1(C(1 - s.constants.beta1)),
          rest2(C(1 - s.constants.beta2)) {}
    __device__ __forceinline__ void Update(C& p, C* kept, C g) const {
      C& m = kept[0];
      g *= this->scale;
      C mix = fma(beta1, m, rest1 * g), direction = C(mix > 0) - C(mix < 0);
      p = fma(-this->lr, fma(this->weight_decay, p, direction), p);
      m = fma(beta2, m, rest2 * g);
    }
  };
};

}  // namespace

void AddLion(KernelTable& table) { SetRun(table, Op::kLion, &Update<LionRule>, &UpdateMany<LionRule>); }

}  // namespace weft::cuda
