// CollectiveContext: what the kernels of collectives run on. Core hands it on and knows no more; dist's DeviceMesh is one.
#pragma once

namespace weft {

class CollectiveContext {
 public:
  virtual ~CollectiveContext() = default;
};

}  // namespace weft
