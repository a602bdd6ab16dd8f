// CollectiveContext: what the kernels of collectives run on. Core only passes it through; dist's DeviceMesh implements
// it.
#pragma once

namespace weft {

class CollectiveContext {
 public:
  virtual ~CollectiveContext() = default;
};

}  // namespace weft
