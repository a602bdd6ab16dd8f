// GlooGroup: the CPU group across processes. It runs on Gloo over authenticated sockets and reduces in rank order.
//
// gloo_collectives.cc has a table of the cost of each collective.
//
// A ring would send as many bytes, but it adds in a different order for every slice and rounds 16-bit floats at every
// step. Here all pieces of a slice go to its owner, which reduces them as the in-process group does, so both give the
// same bits.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/dist/group/gloo/gloo_channel.h"
#include "weft/dist/group/group_factory.h"

namespace weft {

class GlooGroup final : public ProcessGroup {
 public:
  // Up to this size an all_reduce sends all data to all ranks, which saves a step.
  static constexpr int64_t kSmallBytes = 8192;
  // A larger one runs in segments of this size, which stay in the cache.
  static constexpr int64_t kSegmentBytes = 4 << 20;

  GlooGroup(std::string name, int rank, std::vector<int> ranks, std::shared_ptr<GlooContext> context);
  // Waits until the other ranks are done with this group too, unless it failed, because closing a pair drops unread
  // data.
  ~GlooGroup() override;
  void Abort(const std::string& reason) override;

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override;

 private:
  struct Algorithms;  // the algorithm of each collective
  struct Call;        // one execution: the collective, its channel, tags and deadline
  // Lists and receive memory of collectives, which run one at a time. They are reused, so that a call allocates
  // nothing.
  struct Workspace {
    std::vector<GlooSend> sends;
    std::vector<GlooRecv> recvs;
    std::vector<const void*> inputs;
    std::vector<int64_t> begins, counts;
    std::unique_ptr<std::byte[]> bytes;  // grows to the largest call
    size_t num_bytes = 0;

    explicit Workspace(int ranks);
    std::byte* Bytes(size_t at_least);
    std::span<const int64_t> Even(int64_t count);  // the same count for every rank
  };
  GlooChannel& ChannelOf(CollectiveOp op);
  void Dispatch(Call& call);
  void Exchange(Call& call, std::span<const GlooSend> sends, std::span<const GlooRecv> recvs);
  void Close();

  std::shared_ptr<GlooContext> context_;
  GlooChannel collectives_{*context_}, sends_{*context_}, recvs_{*context_};  // may wait concurrently
  Workspace work_{size()};
  std::atomic<bool> failed_{false};
  std::mutex reason_mutex_;
  std::string reason_;
};

// Makes Gloo groups for CPU tensors. The bootstrap must outlive the factory, but not the groups.
class GlooGroupFactory final : public GroupFactory {
 public:
  explicit GlooGroupFactory(Bootstrap& bootstrap,
                            std::chrono::milliseconds connect_timeout = std::chrono::milliseconds{60'000})
      : bootstrap_(bootstrap), connect_timeout_(connect_timeout) {}
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  Bootstrap& bootstrap_;
  std::chrono::milliseconds connect_timeout_;
};

}  // namespace weft
