// Snapshot: a copy of the boxes that a rank owns, as they were at the end of a step.
//
// The whole shard has its memory on the host for the whole run. A ring of a few buffers would take less, but then the
// device could not continue with the weights until all of them are on the disk. For 24 GB on each of four GPUs (8B
// parameters with their moments), a copy over the bus takes half a second, and a disk more than ten.
#pragma once
#include "absl/status/statusor.h"
#include "weft/core/runtime/streams.h"
#include "weft/train/checkpoint/shard_plan.h"
#include "weft/train/io/save_progress.h"

namespace weft {

class Snapshot {
 public:
  // The state must outlive the snapshot. Allocates all memory here: page-locked, or ordinary memory if the host locks
  // no more pages.
  explicit Snapshot(State& state, int rank);
  // Copies the boxes to the host, as of the work issued so far. On a device with streams the copies run concurrently
  // with work issued later. That work may read the state; work that writes it must be issued after WaitForCopy.
  void Take();
  // Returns when the copies of the last Take are complete. Throws the error of a failed device. Thread-safe.
  void WaitForCopy() const;
  // Waits for the copies and writes them as one file in `folder`. When it returns, the file is on the disk. Returns the
  // checksums in the order of ShardPlan. The state may change during the call. `progress` counts the bytes as they go
  // to the disk.
  absl::StatusOr<std::vector<uint32_t>> Write(const std::string& folder, SaveProgress& progress) const;
  uint64_t bytes() const { return plan_.bytes; }  // of the file
  // Whether copies to the host run asynchronously. If not, Take waits until they are complete.
  bool staged() const { return staged_; }

 private:
  std::byte* ChunkOf(size_t box) const { return static_cast<std::byte*>(memory_->data()) + offsets_[box]; }
  void CopyChunks();

  State& state_;
  ShardPlan plan_;
  bool staged_ = true;
  BufferPtr memory_;             // the local chunks of the boxes' entries, including padding
  std::vector<size_t> offsets_;  // of these chunks
  // Null unless the device has streams.
  StreamedDevice* device_;
  std::unique_ptr<DeviceRuntime::Event> stepped_, copied_;
  // Last, because its destructor waits for copies that use the members above.
  std::unique_ptr<StreamedDevice::Stream> stream_;
};

}  // namespace weft
