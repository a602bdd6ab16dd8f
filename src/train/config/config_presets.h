// Defaults that depend on other keys: the sizes of published models for model.preset, the defaults of each optimizer,
// and those that a checkpoint was written with.
#pragma once
#include "weft/train/config/config.h"

namespace weft {

// Fills the model keys that were not given: from model.preset if it is set, then from the family and the other sizes.
void FillModel(Config& config);
// Fills train.objective and the keys of the model family if they were not given.
void FillFamily(Config& config);
// Gives keys of the model family that were not given their values from before there were such keys
// (FamilyKey::earlier), and adds a note for each.
void FillEarlier(Config& config);
// Fills the optimizer keys that were not given with the defaults of the optimizer.
void FillOptimizer(Config& config);

}  // namespace weft
