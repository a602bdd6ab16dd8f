// Mfu: model FLOPs utilization, the fraction of the devices' peak that a run uses: tokens/s x (6N + 12 L h q s) /
// (ranks x peak). N is the number of parameters except lookup-only tables. L layers of h heads of size q attend over s
// tokens. A causal mask is not discounted, and recomputation is not credited.
#pragma once
#include <optional>
#include <string>

#include "weft/parallel/nn/model.h"

namespace weft {

// Returns the peak of dense bf16 or f16 products in FLOP/s, or none if the table lacks the device. `device_name` is the
// driver's name.
std::optional<double> PeakFlops(const std::string& device_name);
// Returns the FLOPs of forward and backward pass. `tokens` is the length of a sequence.
double FlopsPerToken(const Model& model, int64_t tokens);

class Mfu {
 public:
  // `tokens` is the length of a sequence. If `compute` is not bf16 or f16, the peak is unknown.
  Mfu(const Model& model, int64_t tokens, DType compute, const std::string& device_name, int ranks);
  // Returns a fraction, or none if the peak is unknown.
  std::optional<double> At(double tokens_per_s) const;

 private:
  std::optional<double> tokens_per_s_at_peak_;
};

}  // namespace weft
