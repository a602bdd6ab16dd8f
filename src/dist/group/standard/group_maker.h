// The groups of a job, as its bootstrap and its devices ask for them.
#pragma once
#include <memory>

#include "weft/dist/group/factory_table.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// The factories for the devices of a job: for CPU tensors Gloo, or for a world of one no network at all. The bootstrap
// must outlive them.
std::unique_ptr<FactoryTable> MakeGroupFactory(Bootstrap& bootstrap);

}  // namespace weft
