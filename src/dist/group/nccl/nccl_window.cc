#include "weft/dist/group/nccl/nccl_window.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "weft/core/base/error.h"

namespace weft {

absl::StatusOr<NcclWindow> NcclWindow::Register(std::shared_ptr<NcclCommunicator> comm, void* memory,
                                                size_t bytes) try {
  std::unique_lock lock = comm->Lock();
  const NcclLibrary& nccl = comm->library();
  nccl::MemoryWindow* handle = nullptr;
  nccl.Check(nccl.CommWindowRegister(comm->get(), memory, bytes, &handle, nccl::kSymmetric), "ncclCommWindowRegister",
             comm->get());
  if (!handle) return absl::UnavailableError("NCCL makes no windows here");
  lock.unlock();
  return NcclWindow(std::move(comm), handle);
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

// The first gather connects the ranks. Two are made, because after a single one by copy engines a word of NCCL 2.28 has
// the value that recorded gathers wait for, and the first of those would not wait.
absl::Status NcclWindow::Try(char* at, StreamedDevice& device, int rank, int size) const try {
  constexpr size_t kBytes = 64, kOut = 4096;
  char *in = at, *out = at + kOut;
  size_t all = kBytes * size_t(size);
  WEFT_CHECK(kOut + all <= kTried, "a window has too many ranks to be tried");
  device.Fill(out, 0, all);
  const NcclLibrary& nccl = comm_->library();
  for (int i = 0; i < 2; i++) {
    device.Fill(in, uint8_t(rank + 1), kBytes);  // right before each: NcclGroup::Fence has why
    std::unique_lock lock = comm_->Lock();
    nccl.Check(nccl.AllGather(in, out, kBytes, nccl::Type::kU8, comm_->get(), device.Handle()),
               "all_gather in a window", comm_->get());
  }
  BufferPtr host = device.AllocateStaging(all);
  device.Copy(host->data(), out, all);
  std::unique_ptr<DeviceRuntime::Event> done = device.NewEvent();
  done->Record();
  while (!done->Done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  for (size_t i = 0; i < all; i++)
    WEFT_CHECK(static_cast<const uint8_t*>(host->data())[i] == uint8_t(i / kBytes + 1),
               fmt::format("a gather in a window: expected {} at byte {}, got {}", uint8_t(i / kBytes + 1), i,
                           static_cast<const uint8_t*>(host->data())[i]));
  return absl::OkStatus();
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

void NcclWindow::Deregister() {
  std::unique_lock lock = comm_->Lock();
  const NcclLibrary& nccl = comm_->library();
  nccl.Check(nccl.CommWindowDeregister(comm_->get(), handle_), "ncclCommWindowDeregister", comm_->get());
}

}  // namespace weft
