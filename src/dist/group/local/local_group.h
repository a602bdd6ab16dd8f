// LocalGroup: a group whose ranks are threads of one process. Parallel tests and worlds of one rank use it.
//
//   RunRanks(4, [](Context& context, GroupFactory& groups) {
//     DeviceMesh mesh(context, groups, {{"dp", "tp"}, {2, 2}});
//     ...
//   });
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/group_factory.h"

namespace weft {

class LocalRoom;

// The state that the ranks of one process share. Thread-safe.
class LocalWorld {
 public:
  explicit LocalWorld(int size);
  ~LocalWorld();
  int size() const { return size_; }

  // Ends every present and future wait of every group of this world with AbortedError. Only the first reason counts.
  void Abort(const std::string& reason);

  // Returns the room of the k-th group with this key, where k is the number of groups with this key that `global_rank`
  // has joined.
  std::shared_ptr<LocalRoom> Join(const std::string& name, const std::vector<int>& ranks, DeviceKind kind,
                                  int global_rank);

 private:
  struct Pending {
    std::shared_ptr<LocalRoom> room;
    std::vector<int> joined;
  };
  int size_;
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::vector<int>, DeviceKind>, std::vector<Pending>>
      pending_;  // rooms that not all ranks have joined
  std::vector<std::weak_ptr<LocalRoom>> rooms_;
  bool aborted_ = false;
  std::string reason_;
};

// Supports CPU tensors only and throws Error for other kinds.
class LocalGroup : public ProcessGroup {
 public:
  LocalGroup(std::string name, int rank, std::vector<int> ranks, DeviceKind kind, std::shared_ptr<LocalRoom> room);
  ~LocalGroup() override;
  void Abort(const std::string& reason) override;

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override;

 private:
  void Exchange(const Collective& call, uint64_t sequence, Deadline deadline);
  void Publish(const Collective& call);
  void AllReduceLarge(const Collective& call, Deadline deadline);

  std::shared_ptr<LocalRoom> room_;
  uint64_t sequence_ = 0;            // number of the collective in progress
  std::vector<const void*> inputs_;  // inputs of all ranks, for a large reduction
};

class LocalGroupFactory final : public GroupFactory {
 public:
  LocalGroupFactory(std::shared_ptr<LocalWorld> world, int rank) : world_(std::move(world)), rank_(rank) {}
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  std::shared_ptr<LocalWorld> world_;
  int rank_;
};

// Returns a group of only this rank, whose collectives are copies.
std::unique_ptr<ProcessGroup> MakeSelfGroup(const std::string& name, int global_rank, DeviceKind kind);

// Runs fn on `ranks` threads, each with its own Context and factory, and joins them. When one throws, the collectives
// of the others end with AbortedError. Rethrows the first error that is not an AbortedError, or else the first
// AbortedError.
using RankFunction = std::function<void(Context& context, GroupFactory& groups)>;
void RunRanks(int ranks, const RankFunction& fn, int threads_per_rank = 1);

}  // namespace weft
