#include "dist/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft {

const char* Name(CollectiveOp op) {
  static constexpr const char* kNames[kNumCollectiveOps] = {
      "all_reduce",   "all_gather",   "reduce_scatter", "all_to_all", "broadcast", "shift",
      "all_gather_v", "all_to_all_v", "barrier",        "send",       "recv"};
  return kNames[size_t(op)];
}

SiteText::SiteText(std::string_view site) : size_(std::min(site.size(), sizeof(text_))) {
  std::copy_n(site.data(), size_, text_);
}

SiteText::SiteText(const std::source_location& loc) {
  std::string_view file = loc.file_name();
  if (auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  size_ = std::min(fmt::format_to_n(text_, sizeof(text_), "{}:{}", file, loc.line()).size, sizeof(text_));
}

int64_t InputBytes(const Collective& call, int size) {
  int64_t element = int64_t(SizeOf(call.dtype));
  switch (call.op) {
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return call.count * size * element;
    case CollectiveOp::kAllToAllV:
      return std::accumulate(call.send_counts.begin(), call.send_counts.end(), int64_t{0}) * element;
    case CollectiveOp::kBarrier:
    case CollectiveOp::kRecv:
      return 0;
    default:
      return call.count * element;
  }
}

std::string ToString(const Collective& call) {
  std::string text = Name(call.op);
  if (call.op != CollectiveOp::kBarrier) text += fmt::format(" {} x {}", Name(call.dtype), call.count);
  if (IsReduction(call.op)) text += fmt::format(" {}", Name(call.reduce));
  bool has_peer = IsPointToPoint(call.op) || call.op == CollectiveOp::kBroadcast || call.op == CollectiveOp::kShift;
  if (has_peer) text += fmt::format(" peer {}", call.peer);
  return text;
}

}  // namespace weft
