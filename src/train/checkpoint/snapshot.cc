#include "weft/train/checkpoint/snapshot.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "weft/core/host/rounding.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/io/durable.h"

namespace weft {

Snapshot::Snapshot(State& state, int rank)
    : state_(state), plan_(PlanShard(state, rank)), device_(StreamsOf(state.device())) {
  MemoryUse use("checkpoint");
  constexpr size_t kAlign = 64;
  size_t bytes = 0;
  for (const PlannedBox& b : plan_.boxes) {
    offsets_.push_back(bytes);
    bytes += RoundUpBytes(state.At(b.tensor).local.bytes(), kAlign);
  }
  memory_ = state.device().TryAllocateStaging(bytes);
  staged_ = memory_ != nullptr;
  if (!staged_) memory_ = AllocateCpu(bytes);
  if (!device_) return;
  stepped_ = device_->NewEvent();
  copied_ = device_->NewEvent();
  stream_ = device_->NewStream();
}

void Snapshot::CopyChunks() {
  for (size_t i = 0; i < plan_.boxes.size(); i++) {
    const Tensor& local = state_.At(plan_.boxes[i].tensor).local;
    state_.device().Copy(ChunkOf(i), local.data(), local.bytes());
  }
}

void Snapshot::Take() {
  if (!device_) return CopyChunks();
  stepped_->Record();
  StreamScope scope(*device_, stream_.get());
  device_->Wait(*stepped_);
  CopyChunks();
  copied_->Record();
}

void Snapshot::WaitForCopy() const {
  while (copied_ && !copied_->Done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

absl::StatusOr<std::vector<uint32_t>> Snapshot::Write(const std::string& folder, SaveProgress& progress) const {
  WaitForCopy();
  if (plan_.boxes.empty()) return std::vector<uint32_t>();
  absl::StatusOr<DurableFile> file =
      DurableFile::Create((std::filesystem::path(folder) / plan_.file).string(), &progress);
  if (!file.ok()) return file.status();
  if (absl::Status s = file->Write(plan_.header); !s.ok()) return s;
  std::vector<uint32_t> crcs{Crc32c(plan_.header)};
  std::vector<std::byte> packed;
  for (size_t i = 0; i < plan_.boxes.size(); i++) {
    const PlannedBox& b = plan_.boxes[i];
    std::span<const std::byte> bytes(ChunkOf(i), b.bytes());
    const Shape& chunk = state_.At(b.tensor).local.shape();
    if (Extents(b.box) != chunk) {  // the chunk has padding
      packed.resize(b.bytes());
      BoxData from{b.box, b.dtype, ChunkOf(i), RowMajor(chunk)};
      CopyMeeting(from, {b.box, b.dtype, packed.data(), RowMajor(Extents(b.box))});
      bytes = packed;
    }
    crcs.push_back(Crc32c(bytes));
    if (absl::Status s = file->Write(bytes); !s.ok()) return s;
  }
  if (absl::Status s = file->Close(); !s.ok()) return s;
  return crcs;
}

}  // namespace weft
