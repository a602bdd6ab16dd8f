// GroupSource: what a Context that has joined a job gives the meshes that are made of it.
#pragma once
#include <vector>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/group_factory.h"

namespace weft {

class DeviceMesh;

class GroupSource : public ContextService {
 public:
  virtual GroupFactory& groups() = 0;
  virtual std::vector<DeviceKind> kinds() const = 0;  // of the tensors that the groups move
  // A mesh of the groups has been made. From now on its failures end the job.
  virtual void Watch(DeviceMesh& mesh) = 0;

  // The source of a context. Throws Error if Context::FromEnvironment did not make it.
  static GroupSource& Of(const Context& context);
};

}  // namespace weft
