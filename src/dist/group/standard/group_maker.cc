#include "weft/dist/group/standard/group_maker.h"

#include "weft/dist/group/gloo/gloo_group.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {

std::unique_ptr<GroupFactory> MakeGroupFactory(Bootstrap& bootstrap) {
  if (bootstrap.world_size() == 1) return std::make_unique<LocalGroupFactory>(std::make_shared<LocalWorld>(1), 0);
  return std::make_unique<GlooGroupFactory>(bootstrap, bootstrap.timeout());
}

}  // namespace weft
