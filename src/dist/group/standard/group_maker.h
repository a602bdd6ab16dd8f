// The groups of a job, as its bootstrap and its devices ask for them.
#pragma once
#include <memory>

#include "weft/dist/group/group_factory.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// The factory for CPU groups: Gloo, or for a world of one no network at all. The bootstrap must outlive it.
std::unique_ptr<GroupFactory> MakeGroupFactory(Bootstrap& bootstrap);

}  // namespace weft
