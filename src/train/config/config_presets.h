// Sizes of published models, by the name that model.preset takes.
#pragma once
#include "weft/train/config/config.h"

namespace weft {

// Sets the model keys that were not given: from model.preset if there is one, then from the family and the other sizes.
void FillModel(Config& config);

}  // namespace weft
