#include "parallel/checkpoint/snapshot.h"

#include <filesystem>

#include "parallel/checkpoint/crc32c.h"
#include "parallel/checkpoint/durable.h"

namespace weft {

Snapshot::Snapshot(State& state, int rank) : state_(state), plan_(PlanShard(state, rank)) {
  MemoryUse use("checkpoint");
  bool on_host = state.device().device().kind == DeviceKind::kCpu;
  for (const PlannedBox& b : plan_.boxes) {
    const Tensor& local = state.At(b.tensor).local;
    chunks_.push_back(on_host ? AllocateCpu(local.bytes()) : state.device().AllocateStaging(local.bytes()));
    shapes_.push_back(local.shape());
  }
}

void Snapshot::Take() {
  for (size_t i = 0; i < chunks_.size(); i++) {
    const Tensor& local = state_.At(plan_.boxes[i].tensor).local;
    state_.device().Copy(chunks_[i]->data(), local.data(), local.bytes());
  }
  state_.device().Synchronize();
}

absl::StatusOr<std::vector<uint32_t>> Snapshot::Write(const std::string& folder) const {
  if (plan_.boxes.empty()) return std::vector<uint32_t>();
  absl::StatusOr<DurableFile> file = DurableFile::Create((std::filesystem::path(folder) / plan_.file).string());
  if (!file.ok()) return file.status();
  if (absl::Status s = file->Write(plan_.header); !s.ok()) return s;
  std::vector<uint32_t> crcs{Crc32c(plan_.header)};
  std::vector<std::byte> packed;
  for (size_t i = 0; i < plan_.boxes.size(); i++) {
    const PlannedBox& b = plan_.boxes[i];
    std::span<const std::byte> bytes(static_cast<const std::byte*>(chunks_[i]->data()), b.bytes());
    if (Extents(b.box) != shapes_[i]) {  // padded
      packed.resize(b.bytes());
      BoxData from{b.box, b.dtype, static_cast<std::byte*>(chunks_[i]->data()), RowMajor(shapes_[i])};
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
