#include "weft/dist/group/nccl/nccl_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr size_t kStagedAlign = 64;
size_t StagedBytes(size_t bytes) { return (bytes + kStagedAlign - 1) / kStagedAlign * kStagedAlign; }

size_t InputBytesOf(const Collective& call) { return size_t(call.count) * SizeOf(call.dtype); }

bool IsIn(const NcclCopies::Window& window, const void* data, size_t bytes) {
  auto* at = static_cast<const char*>(data);
  return window.data <= at && at + bytes <= window.data + window.bytes;
}

}  // namespace

absl::Status NcclCopies::Register(void* memory, size_t bytes, Window window) try {
  std::unique_lock lock = comm_->Lock();
  const NcclLibrary& nccl = comm_->library();
  nccl.Check(nccl.CommWindowRegister(comm_->get(), memory, bytes, &window.handle, nccl::kSymmetric),
             "ncclCommWindowRegister", comm_->get());
  if (!window.handle) return absl::UnavailableError("NCCL makes no windows here");
  windows_.push_back(window);
  return absl::OkStatus();
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

// The first gather connects the ranks. Two are made, because after a single one a word of NCCL 2.28 has the value that
// recorded gathers wait for, and the first of those would not wait.
absl::Status NcclCopies::Try(const void* data) try {
  constexpr size_t kBytes = 64, kOut = 4096;
  auto window = std::find_if(windows_.begin(), windows_.end(), [data](const Window& w) { return w.data == data; });
  WEFT_CHECK(window != windows_.end(), "a window that is not registered is tried");
  char *in = window->staging, *out = in + kOut;
  size_t all = kBytes * size_t(size_);
  device_.Fill(in, uint8_t(rank_ + 1), kBytes);
  device_.Fill(out, 0, all);
  for (int i = 0; i < 2; i++) Gather(in, out, kBytes);
  BufferPtr host = device_.AllocateStaging(all);
  device_.Copy(host->data(), out, all);
  std::unique_ptr<DeviceRuntime::Event> done = device_.NewEvent();
  done->Record();
  while (!done->Done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  for (size_t i = 0; i < all; i++)
    WEFT_CHECK(static_cast<const uint8_t*>(host->data())[i] == uint8_t(i / kBytes + 1),
               fmt::format("a gather by copy engines: expected {} at byte {}, got {}", uint8_t(i / kBytes + 1), i,
                           static_cast<const uint8_t*>(host->data())[i]));
  return absl::OkStatus();
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

NcclCopies::Window NcclCopies::Take(const void* data) {
  auto it = std::find_if(windows_.begin(), windows_.end(), [data](const Window& w) { return w.data == data; });
  if (it == windows_.end()) return {};
  Window window = *it;
  windows_.erase(it);
  return window;
}

void NcclCopies::Deregister(const void* data) {
  Window window = Take(data);
  if (!window.handle) return;
  std::unique_lock lock = comm_->Lock();
  const NcclLibrary& nccl = comm_->library();
  nccl.Check(nccl.CommWindowDeregister(comm_->get(), window.handle), "ncclCommWindowDeregister", comm_->get());
}

void NcclCopies::Forget(const void* data) { Take(data); }

// Returns the window that holds the call's output, or null.
const NcclCopies::Window* NcclCopies::WindowOf(const Collective& call) const {
  for (const Window& window : windows_)
    if (IsIn(window, call.out, InputBytesOf(call) * size_t(size_))) return &window;
  return nullptr;
}

bool NcclCopies::Takes(Issued issued) const {
  const Window* window = issued.empty() ? nullptr : WindowOf(issued.front()->call);
  size_t staged = 0;
  for (const auto& one : issued) {
    const Collective& call = one->call;
    if (!window || call.op != CollectiveOp::kAllGather || WindowOf(call) != window) return false;
    if (!IsIn(*window, call.in, InputBytesOf(call))) staged += StagedBytes(InputBytesOf(call));
  }
  return window && staged <= kStaging;
}

// Gathers of a bucket stay apart, because each has its own meeting of the ranks in any case. In a stream they run in
// order, so the next bucket may use the same staging area.
void NcclCopies::Put(Issued issued) {
  size_t staged = 0;
  for (const auto& one : issued) {
    const Collective& call = one->call;
    const Window& window = *WindowOf(call);
    const void* in = call.in;
    size_t bytes = InputBytesOf(call);
    if (!IsIn(window, in, bytes)) {
      char* copy = window.staging + staged;
      device_.Copy(copy, in, bytes);
      staged += StagedBytes(bytes);
      in = copy;
    }
    Gather(in, call.out, bytes);
  }
}

void NcclCopies::Gather(const void* in, void* out, size_t bytes) {
  std::unique_lock lock = comm_->Lock();
  const NcclLibrary& nccl = comm_->library();
  nccl.Check(nccl.AllGather(in, out, bytes, nccl::Type::kU8, comm_->get(), device_.Handle()),
             "all_gather by copy engines", comm_->get());
  gathers_++;
}

}  // namespace weft
