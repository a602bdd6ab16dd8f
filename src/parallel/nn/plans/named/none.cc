// No rows: the base of plans that a config writes completely.
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft::plans {
namespace {

ShardingPlan Make(const PlanOptions&, const MeshShape&) { return {}; }

}  // namespace

extern const NamedPlan none;
const NamedPlan none{"none", "no rows: ranks of an axis hold and compute the same", Make};

}  // namespace weft::plans
