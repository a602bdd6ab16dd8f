// CollectiveCase: one collective of one size, on buffers of random integers, so that the result is known.
//
//   CollectiveCase all_reduce(group, device, {CollectiveOp::kAllReduce, DType::kBF16, 1 << 20});
//   all_reduce.Reset();
//   all_reduce.Enqueue();
//   int64_t wrong = all_reduce.Wrong();
#pragma once
#include <vector>

#include "weft/core/base/tensor.h"
#include "weft/dist/group/process_group.h"

namespace weft {

class CollectiveCase {
 public:
  struct What {
    CollectiveOp op;
    DType dtype = DType::kF32;  // not kBool
    int64_t bytes = 0;          // size of the larger of a rank's two buffers
  };
  // Rounds the bytes down to whole elements per rank, to at least one.
  // - The root is rank 0.
  // - A shift goes to the next rank.
  // - A send goes from each even rank to the next rank, and a receive in the opposite direction. With an odd number of
  //   ranks the last rank is idle.
  // - Counts that may differ between ranks are equal.
  // Group and device must outlive the case. With `memory` the buffers are in it, one after the other; it has at least
  // MemoryOf bytes.
  CollectiveCase(ProcessGroup& group, DeviceRuntime& device, const What& what, BufferPtr memory = nullptr);
  CollectiveCase(const CollectiveCase&) = delete;
  CollectiveCase& operator=(const CollectiveCase&) = delete;

  // Returns the bytes of both buffers, with space to align them.
  static size_t MemoryOf(const ProcessGroup& group, const What& what);

  int64_t bytes() const { return bytes_; }  // after rounding
  // Fills the input with its integers and the output with bytes of 0xFF. Waits for the device.
  void Reset();
  void Enqueue();
  // Returns how many elements of this rank's output differ from the known result. Waits for the device.
  int64_t Wrong();

 private:
  Collective CallOf(const What& what) const;

  ProcessGroup& group_;
  DeviceRuntime& device_;
  int64_t piece_ = 0;  // elements of one rank's share
  int64_t bytes_ = 0;
  std::vector<int64_t> counts_;  // for calls that take counts per rank
  bool idle_ = false;            // this rank makes no call
  Tensor in_, out_;              // the same tensor if the call works in place; undefined if the call has no such buffer
  Collective call_;
};

}  // namespace weft
