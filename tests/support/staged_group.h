// StagedGroup: moves tensors of a device through host memory, with a group of the host.
//
//   RunRanks(4, [](Context& context, GroupFactory& host) {   // ranks as threads that share one GPU
//     StagedGroupFactory groups(host, device);
//     DeviceMesh mesh(context, groups, shape, groups.kinds());
//
// Results are bit-identical to those of the host's group. Each call waits for the device. Ranks of NCCL cannot share a
// GPU; these can, so one GPU tests every layout.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weft/core/runtime/streams.h"
#include "weft/dist/group/group_factory.h"
#include "weft/dist/group/stream/streamed_group.h"

namespace weft {

class StagedGroup final : public StreamedGroup {
 public:
  StagedGroup(std::unique_ptr<ProcessGroup> host, StreamedDevice& device);
  ~StagedGroup() override;
  void Abort(const std::string& reason) override { host_->Abort(reason); }

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override;
  void Issue(std::shared_ptr<const IssuedCall> issued) override;

 private:
  std::unique_ptr<ProcessGroup> host_;
  BufferPtr in_, out_;  // in host memory; grow to the largest call
};

// Makes groups of the host with `host`, and groups of the device on top of them. Turns off recordings of the device
// permanently, because the host's part of a call cannot be recorded. `host` and the device must outlive the factory,
// and the device must outlive the groups.
class StagedGroupFactory final : public GroupFactory {
 public:
  StagedGroupFactory(GroupFactory& host, StreamedDevice& device);
  std::vector<DeviceKind> kinds() const { return {DeviceKind::kCpu, device_.device().kind}; }
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  GroupFactory& host_;
  StreamedDevice& device_;
};

}  // namespace weft
