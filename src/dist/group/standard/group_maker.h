// The groups of a job, as its bootstrap and its devices ask for them.
#pragma once
#include <memory>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/factory_table.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// The factories for the devices of a job: for CPU tensors Gloo, or for a world of one no network at all; for the GPU
// that `context` has, NCCL. Bootstrap and context must outlive them. Throws Error where NCCL cannot be opened.
std::unique_ptr<FactoryTable> MakeGroupFactory(Bootstrap& bootstrap, const Context* context = nullptr);

}  // namespace weft
