#include "weft/dist/group/nccl/nccl_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weft/core/base/error.h"
#include "weft/core/host/rounding.h"

namespace weft {
namespace {

constexpr size_t kStagedAlign = 64;
size_t StagedBytes(size_t bytes) { return RoundUpBytes(bytes, kStagedAlign); }

bool IsMove(const Collective& call) {
  return call.op == CollectiveOp::kAllGather || call.op == CollectiveOp::kAllToAll;
}
// The bytes that a rank sends to each other one.
size_t ChunkBytesOf(const Collective& call) { return size_t(call.count) * SizeOf(call.dtype); }

bool IsIn(const NcclCopies::Window& window, const void* data, size_t bytes) {
  auto* at = static_cast<const char*>(data);
  return window.data <= at && at + bytes <= window.data + window.bytes;
}

}  // namespace

void NcclCopies::Remove(const void* data) {
  std::erase_if(windows_, [data](const Window& w) { return w.data == data; });
}

// Returns the window that holds the call's output, or null.
const NcclCopies::Window* NcclCopies::WindowOf(const Collective& call) const {
  for (const Window& window : windows_)
    if (IsIn(window, call.out, ChunkBytesOf(call) * size_t(size_))) return &window;
  return nullptr;
}

bool NcclCopies::Takes(Issued issued) const {
  const Window* window = issued.empty() ? nullptr : WindowOf(issued.front()->call);
  size_t staged = 0;
  for (const auto& one : issued) {
    const Collective& call = one->call;
    if (!window || !IsMove(call) || WindowOf(call) != window) return false;
    bool gather = call.op == CollectiveOp::kAllGather;
    if (IsIn(*window, call.in, ChunkBytesOf(call) * (gather ? 1 : size_t(size_)))) continue;
    if (!gather) return false;
    staged += StagedBytes(ChunkBytesOf(call));
  }
  return window && staged <= kStaging;
}

// Calls of a bucket stay apart, because each has its own meeting of the ranks in any case. In a stream they run in
// order, so the next bucket may use the same staging area.
void NcclCopies::Put(Issued issued) {
  size_t staged = 0;
  for (const auto& one : issued) {
    const Collective& call = one->call;
    const Window& window = *WindowOf(call);
    const void* in = call.in;
    size_t bytes = ChunkBytesOf(call);
    if (call.op == CollectiveOp::kAllGather && !IsIn(window, in, bytes)) {
      char* copy = window.staging + staged;
      device_.Copy(copy, in, bytes);
      staged += StagedBytes(bytes);
      in = copy;
    }
    MakeBlocks(call, in);
  }
}

// NCCL makes no call by copy engines in a group, so each block is a call.
void NcclCopies::MakeBlocks(const Collective& call, const void* in) {
  Collective whole = call;
  whole.in = in;
  for (int64_t block = 0; block < call.blocks; block++) {
    Collective one = BlockOf(whole, block, size_);
    Make(one.op, one.in, one.out, ChunkBytesOf(one));
  }
}

void NcclCopies::Make(CollectiveOp op, const void* in, void* out, size_t bytes) {
  std::unique_lock lock = comm_->Lock();
  const NcclLibrary& nccl = comm_->library();
  auto function = op == CollectiveOp::kAllGather ? nccl.AllGather : nccl.AlltoAll;
  nccl.Check(function(in, out, bytes, nccl::Type::kU8, comm_->get(), device_.Handle()),
             fmt::format("{} by copy engines", Name(op)), comm_->get());
  made_++;
}

}  // namespace weft
