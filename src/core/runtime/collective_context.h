// CollectiveContext: what the kernels of collectives run on. Core only passes it through; dist's DeviceMesh implements
// it.
#pragma once
#include <string>

#include "absl/functional/function_ref.h"

namespace weft {

class CollectiveContext {
 public:
  virtual ~CollectiveContext() = default;
  // Calls `make` on the first rank only, and returns what it returned on every rank. If it throws, every rank throws
  // Error with its message. Collective.
  virtual std::string FromFirstRank(absl::FunctionRef<std::string()> make) = 0;
};

}  // namespace weft
