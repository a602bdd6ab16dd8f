// Mfu: model FLOPs utilization, what a run does of what its devices could: tokens/s x (6N + 12 L h q s) over ranks x
// peak. N are the parameters but for tables that are only looked up; L layers of h heads of size q attend over s
// tokens, with no discount for a causal mask and no credit for what is computed twice.
#pragma once
#include <optional>
#include <string>

#include "weft/parallel/nn/model.h"

namespace weft {

// Of a product's dense bf16 or f16 units, by the name that its driver gives it; none where that is not in the table.
std::optional<double> PeakFlops(const std::string& device_name);
// Forward and backward.
double FlopsPerToken(const Model& model, int64_t tokens);

class Mfu {
 public:
  // `tokens`: of a sequence. Products in other types than bf16 and f16 have no peak here.
  Mfu(const Model& model, int64_t tokens, DType compute, const std::string& device_name, int ranks);
  // None where the peak is unknown.
  std::optional<double> At(double tokens_per_s) const;

 private:
  std::optional<double> tokens_per_s_at_peak_;
};

}  // namespace weft
