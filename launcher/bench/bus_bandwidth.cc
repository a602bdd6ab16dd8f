#include "launcher/bench/bus_bandwidth.h"

#include "weft/core/base/error.h"

namespace weft {

double BusFactor(CollectiveOp op, int ranks) {
  double others = double(ranks - 1) / double(ranks);
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * others;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllGatherV:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
      return others;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kShift:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return 1;
    case CollectiveOp::kBarrier:
      return 0;
  }
  Fail("a collective without a bus bandwidth");
}

}  // namespace weft
