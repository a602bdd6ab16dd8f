#include "support/staged_group.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

// Returns memory for `bytes`, which may be 0.
void* Room(BufferPtr& buffer, int64_t bytes) {
  if (!buffer || buffer->bytes() < size_t(bytes)) buffer = AllocateCpu(size_t(std::max<int64_t>(bytes, 1)));
  return buffer->data();
}

}  // namespace

StagedGroup::StagedGroup(std::unique_ptr<ProcessGroup> host, StreamedDevice& device)
    : StreamedGroup(host->name(), host->rank(), host->ranks(), device), host_(std::move(host)) {}

StagedGroup::~StagedGroup() { StopLanes(); }

void StagedGroup::Issue(std::shared_ptr<const IssuedCall> issued) {
  WEFT_CHECK(!IsRecording(),
             fmt::format("group \"{}\": what passes through the host's memory cannot be recorded", name()));
  RunNow(issued->call, issued->sequence);
  Finished(*issued, nullptr);
}

void StagedGroup::Execute(const Collective& call, uint64_t, Deadline deadline) {
  using std::chrono::milliseconds;
  Collective staged = call;
  int64_t in = InputBytes(call, size()), out = OutputBytes(call, size(), rank());
  bool reads = in > 0 && (call.op != CollectiveOp::kBroadcast || call.peer == rank());
  staged.in = Room(in_, std::max(in, call.in == call.out ? out : 0));
  staged.out = call.in == call.out ? const_cast<void*>(staged.in) : Room(out_, out);
  if (reads) device().Copy(const_cast<void*>(staged.in), call.in, size_t(in));
  device().Synchronize();
  auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  staged.timeout = std::max(left, milliseconds(1));
  host_->Run(staged);
  if (out > 0) device().Copy(call.out, staged.out, size_t(out));
  device().Synchronize();  // before the next call reuses the memory
}

StagedGroupFactory::StagedGroupFactory(GroupFactory& host, StreamedDevice& device) : host_(host), device_(device) {
  device_.set_records(false);
}

std::unique_ptr<ProcessGroup> StagedGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                       DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return host_.Make(name, ranks, kind);
  WEFT_CHECK(kind == device_.device().kind,
             fmt::format("group \"{}\": nothing here moves {} tensors between ranks", name, Name(kind)));
  return std::make_unique<StagedGroup>(host_.Make(name + " by the host", ranks, DeviceKind::kCpu), device_);
}

}  // namespace weft
