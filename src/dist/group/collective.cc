#include "weft/dist/group/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft {

SiteText::SiteText(std::string_view site) : size_(std::min(site.size(), sizeof(text_))) {
  std::copy_n(site.data(), size_, text_);
}

SiteText::SiteText(const std::source_location& loc) : SiteText("", loc) {}

SiteText::SiteText(std::string_view scope, const std::source_location& loc) {
  std::string_view file = loc.file_name();
  if (auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  if (!scope.empty()) {
    Append(scope);
    Append(" ");
  }
  Append(file);
  Append(":");
  Append(fmt::format_int(loc.line()).c_str());
}

void SiteText::Append(std::string_view part) {
  size_t fits = std::min(part.size(), sizeof(text_) - size_);
  std::copy_n(part.data(), fits, text_ + size_);
  size_ += fits;
}

int64_t InputBytes(const Collective& call, int size) {
  int64_t element = int64_t(SizeOf(call.dtype));
  switch (Traits(call.op).handed) {
    case Handed::kCount:
      return call.count * element;
    case Handed::kCountPerRank:
      return call.count * size * element;
    case Handed::kSendCounts:
      return std::accumulate(call.send_counts.begin(), call.send_counts.end(), int64_t{0}) * element;
    case Handed::kNothing:
      return 0;
  }
  return 0;
}

int64_t OutputBytes(const Collective& call, int size, int rank) {
  auto element = int64_t(SizeOf(call.dtype));
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kShift:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kRecv:
      return call.count * element;
    case CollectiveOp::kReduce:
      return rank == call.peer ? call.count * element : 0;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
      return call.count * size * element;
    case CollectiveOp::kAllGatherV:
    case CollectiveOp::kAllToAllV:
      return std::accumulate(call.recv_counts.begin(), call.recv_counts.end(), int64_t{0}) * element;
    case CollectiveOp::kBarrier:
    case CollectiveOp::kSend:
      return 0;
  }
  return 0;
}

Collective BlockOf(const Collective& call, int64_t block, int size) {
  Collective one = call;
  one.blocks = 1;
  one.count = call.count / call.blocks;
  one.in = static_cast<const char*>(call.in) + block * InputBytes(one, size);
  one.out = static_cast<char*>(call.out) + block * OutputBytes(one, size, 0);
  return one;
}

std::string ToString(const Collective& call) {
  std::string text = Name(call.op);
  if (call.op != CollectiveOp::kBarrier) text += fmt::format(" {} x {}", Name(call.dtype), call.count);
  if (Traits(call.op).reduces) text += fmt::format(" {}", Name(call.reduce));
  if (Traits(call.op).has_peer) text += fmt::format(" peer {}", call.peer);
  return text;
}

}  // namespace weft
