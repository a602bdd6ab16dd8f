#include "weft/core/ir/storage.h"

namespace weft {

bool IsAlias(const Node& local) {
  return local.op == Op::kStopGradient || local.op == Op::kSplit || local.op == Op::kMerge;
}

bool IsShapeOnly(const Node& local) { return local.op == Op::kFull && local.attrs.IntOr("shape_only", 0); }

size_t BytesOf(const ValueInfo& info) { return size_t(NumElements(info.shape)) * SizeOf(info.dtype); }

}  // namespace weft
