#include "weft/core/ir/storage.h"

#include "weft/core/ir/record.h"

namespace weft {

bool IsAlias(const Node& local) { return Record(local.op).alias; }

bool IsShapeOnly(const Node& local) { return local.op == Op::kFull && local.attrs.IntOr("shape_only", 0); }

size_t BytesOf(const ValueInfo& info) { return size_t(NumElements(info.shape)) * SizeOf(info.dtype); }

}  // namespace weft
