// Group maker: chooses the group factories of a job by its bootstrap and devices.
#pragma once
#include <memory>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/factory_table.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// Returns the factories for the devices of a job. CPU tensors use Gloo, or a LocalGroup without network in a world of
// one rank. The GPU of `context`, if any, uses NCCL in a world of several ranks. Bootstrap and context must outlive the
// result. Throws Error if NCCL cannot be opened.
std::unique_ptr<FactoryTable> MakeGroupFactory(Bootstrap& bootstrap, const Context* context = nullptr);

}  // namespace weft
