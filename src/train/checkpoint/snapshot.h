// Snapshot: the boxes that a rank owns, as they were at the end of a step. The step may go on while they are written.
#pragma once
#include "absl/status/statusor.h"
#include "weft/train/checkpoint/shard_plan.h"
#include "weft/train/io/save_progress.h"

namespace weft {

class Snapshot {
 public:
  // The state outlives the snapshot; its memory is allocated here, once.
  explicit Snapshot(State& state, int rank);
  // Copies the boxes to the host; done on return.
  void Take();
  // Writes them as one file of `folder`, on the disk on return: the checksums, as ShardPlan orders them. Reads the copy
  // alone, so that it may run while the state changes. `progress` gets the bytes as they go to the disk.
  absl::StatusOr<std::vector<uint32_t>> Write(const std::string& folder, SaveProgress& progress) const;
  uint64_t bytes() const { return plan_.bytes; }  // of the file

 private:
  State& state_;
  ShardPlan plan_;
  std::byte* ChunkOf(size_t box) const { return static_cast<std::byte*>(memory_->data()) + offsets_[box]; }

  BufferPtr memory_;             // the chunks of the boxes' entries, with their padding
  std::vector<size_t> offsets_;  // of these chunks
};

}  // namespace weft
