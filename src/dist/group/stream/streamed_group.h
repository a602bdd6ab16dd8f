// StreamedGroup: the common base of groups of a device with streams. Their calls and copies are in stream order.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "weft/core/runtime/streams.h"
#include "weft/dist/group/process_group.h"

namespace weft {

class StreamedGroup : public ProcessGroup {
 public:
  bool is_stream_ordered() const final { return true; }
  void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                int64_t rows) const final {
    device_.CopyRows(to, to_stride, from, from_stride, bytes, rows);
  }
  void Zero(void* data, int64_t bytes) const final { device_.Fill(data, 0, size_t(bytes)); }
  BufferPtr Allocate(size_t bytes) const final { return device_.Allocate(bytes); }
  void Narrow(BF16* to, const float* from, int64_t count) const final { device_.Narrow(to, from, count); }
  void Widen(float* to, const BF16* from, int64_t count) const final { device_.Widen(to, from, count); }
  void SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) const final {
    device_.SumChunks(to, dtype, chunks, num_chunks, count);
  }

 protected:
  // The device must outlive the group.
  StreamedGroup(std::string name, int rank, std::vector<int> ranks, StreamedDevice& device)
      : ProcessGroup(std::move(name), rank, std::move(ranks), device.device().kind), device_(device) {}
  StreamedDevice& device() const { return device_; }
  bool IsRecording() const final { return device_.recording() > 0; }

 private:
  StreamedDevice& device_;
};

}  // namespace weft
