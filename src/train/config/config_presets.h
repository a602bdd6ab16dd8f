// Defaults that depend on other keys: sizes of published models by model.preset, and what each optimizer begins with.
#pragma once
#include "weft/train/config/config.h"

namespace weft {

// Sets the model keys that were not given: from model.preset if there is one, then from the family and the other sizes.
void FillModel(Config& config);
// Fills the objective and the keys of the family's own that are not given.
void FillFamily(Config& config);
// Fills the keys of the optimizer that are not given with its defaults.
void FillOptimizer(Config& config);

}  // namespace weft
