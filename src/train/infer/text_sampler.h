// TextSampler: the StepSampler of decoders. It draws tokens one after the other, as `weft generate` does.
#pragma once
#include <memory>

#include "weft/dist/group/mesh.h"
#include "weft/train/data/data.h"
#include "weft/train/loop/step_sampler.h"

namespace weft {

// Creates the sampler of a resolved config and its data. Returns null if train.sample_every is 0. Returns
// kInvalidArgument, with the position of the key, if the data has no tokenizer. All ranks must call it. Config, data,
// context and mesh must outlive the sampler. Throws Error if ranks would issue different collectives.
absl::StatusOr<std::unique_ptr<StepSampler>> MakeTextSampler(const Config& config, const Dataset& data,
                                                             const Context& context, DeviceMesh& mesh,
                                                             DeviceKind device);

}  // namespace weft
