// TextSampler: the StepSampler of a decoder: it draws tokens one after the other, as weft generate does.
#pragma once
#include <memory>

#include "weft/dist/group/mesh.h"
#include "weft/train/data/data.h"
#include "weft/train/loop/step_sampler.h"

namespace weft {

// Of a resolved config and its data; null if train.sample_every is 0. kInvalidArgument, with the key's place, if the
// data has no tokenizer. All ranks make it together. Config, data and mesh outlive it. Throws Error.
absl::StatusOr<std::unique_ptr<StepSampler>> MakeTextSampler(const Config& config, const Dataset& data,
                                                             const Context& context, DeviceMesh& mesh,
                                                             DeviceKind device);

}  // namespace weft
