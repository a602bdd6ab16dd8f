// NcclGroupFactory: makes NCCL groups for one device kind.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/runtime/streams.h"
#include "weft/dist/group/group_factory.h"
#include "weft/dist/group/nccl/nccl_communicator.h"
#include "weft/dist/group/stream/replay_watch.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// The first Make connects all ranks, and the groups are split from that communicator. Bootstrap and device must outlive
// the factory and the groups.
class NcclGroupFactory final : public GroupFactory {
 public:
  NcclGroupFactory(std::shared_ptr<const NcclLibrary> library, Bootstrap& bootstrap, StreamedDevice& device)
      : library_(std::move(library)),
        bootstrap_(bootstrap),
        device_(device),
        replays_(std::make_shared<ReplayWatch>(device)) {}
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  std::shared_ptr<NcclCommunicator> Split(const std::string& name, const std::vector<int>& ranks, int rank);
  void Meet();

  std::shared_ptr<const NcclLibrary> library_;
  Bootstrap& bootstrap_;
  StreamedDevice& device_;
  std::shared_ptr<ReplayWatch> replays_;
  std::shared_ptr<NcclCommunicator> world_;
  bool world_taken_ = false;  // a group uses world_
};

}  // namespace weft
