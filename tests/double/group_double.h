// Stream-ordered groups of device doubles. When a stream reaches a call, the host's in-process group runs it.
//
//   OnDoubles(4, {.most_us = 100}, [](DoubleRank& rank) {
//     DeviceMesh mesh(rank.context, rank.groups, {{"x"}, {4}}, rank.groups.kinds());
//     mesh.World(DeviceKind::kCuda).Enqueue(...);
//   });
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "double/device_double.h"
#include "double/rank_thread.h"
#include "weft/dist/group/factory_table.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/stream/streamed_group.h"

namespace weft::test {

class GroupDouble final : public StreamedGroup {
 public:
  GroupDouble(const std::string& name, int rank, const std::vector<int>& ranks, DeviceDouble& device,
              std::shared_ptr<LocalRoom> room)
      : StreamedGroup(name, rank, ranks, device),
        device_(device),
        host_(name, rank, ranks, DeviceKind::kCpu, std::move(room)) {}
  ~GroupDouble() override { StopLanes(); }

  void Abort(const std::string& reason) override { host_.Abort(reason); }

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override {
    host_.Execute(call, sequence, deadline);
  }
  void Issue(std::shared_ptr<const IssuedCall> issued) override {
    Collective call = issued->call;
    call.in = device_.Reached(call.in);
    call.out = device_.Reached(call.out);
    device_.PostAlways([this, issued, call] {
      std::exception_ptr error = device_.failure();
      try {
        if (!error) RunNow(call, issued->sequence);
      } catch (...) {
        error = std::current_exception();
        device_.SetFailure(error);
      }
      Finished(*issued, error);
    });
  }

 private:
  struct HostGroup final : LocalGroup {
    using LocalGroup::Execute;
    using LocalGroup::LocalGroup;
  };
  DeviceDouble& device_;
  HostGroup host_;
};

class GroupDoubleFactory final : public GroupFactory {
 public:
  // The calls of these groups run on the host, so they cannot be recorded.
  GroupDoubleFactory(std::shared_ptr<LocalWorld> world, int rank, DeviceDouble& device)
      : world_(std::move(world)), rank_(rank), device_(device) {
    device.set_records(false);
  }
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override {
    auto here = int(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    return std::make_unique<GroupDouble>(name, here, ranks, device_, world_->Join(name, ranks, kind, rank_));
  }

 private:
  std::shared_ptr<LocalWorld> world_;
  int rank_;
  DeviceDouble& device_;
};

// A rank with a device double and a CPU, and groups for both.
struct DoubleRank {
  Context& context;
  DeviceDouble& device;
  FactoryTable groups;
};
struct Doubles {
  int most_us = 0;    // how late work may start
  uint64_t seed = 1;  // the seed of these delays
  // Creates the doubles' groups; null for GroupDouble. The bootstrap lives as long as the groups.
  std::function<std::unique_ptr<GroupFactory>(Bootstrap& bootstrap, DeviceDouble& device)> groups{};
  int hosts = 1;  // rank r is on host r % hosts
};
inline void OnDoubles(int ranks, const Doubles& doubles, const std::function<void(DoubleRank&)>& body) {
  auto world = std::make_shared<LocalWorld>(ranks);
  weft::RunRanks(ranks, [&](Context& context, GroupFactory&) {
    auto owned = std::make_unique<DeviceDouble>(doubles.most_us, doubles.seed * 1000 + uint64_t(context.rank()));
    RankThread bootstrap(world, context.rank(), std::to_string(context.rank() % doubles.hosts));
    DoubleRank rank{context, *owned, {}};
    context.AddDevice(std::move(owned));
    rank.groups.Add(DeviceKind::kCpu, std::make_unique<LocalGroupFactory>(world, context.rank()));
    rank.groups.Add(DeviceKind::kCuda, doubles.groups
                                           ? doubles.groups(bootstrap, rank.device)
                                           : std::make_unique<GroupDoubleFactory>(world, context.rank(), rank.device));
    try {
      body(rank);
    } catch (const std::exception& e) {
      world->Abort(e.what());
      throw;
    }
  });
}

}  // namespace weft::test
