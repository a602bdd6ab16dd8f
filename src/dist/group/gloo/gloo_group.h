// The CPU group across processes: Gloo over proven sockets, and collectives on it that reduce in rank order.
//
// gloo_collectives.cc has a table of what each costs.
//
// A ring would send as much, but adds in another order for every slice and, for 16-bit floats, rounds at every step.
// Here the pieces of a slice come to its owner, who reduces them as the in-process group does: both give the same bits.
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
  static constexpr int64_t kSmallBytes = 8192;  // an all_reduce up to this sends everything to everyone: one step less
  static constexpr int64_t kSegmentBytes = 4 << 20;  // a larger one goes in pieces of it, which stay in the cache

  GlooGroup(std::string name, int rank, std::vector<int> ranks, std::shared_ptr<GlooContext> context);
  // Waits for the other ranks to be done with this group too, unless it failed: a closed pair drops data not yet read.
  ~GlooGroup() override;
  void Abort(const std::string& reason) override;

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override;

 private:
  struct Algorithms;  // what each collective does
  struct Call;        // one execution: the collective, its channel, tags and deadline
  // What collectives, which come one at a time, list and receive into: made once, so that a call allocates nothing.
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
  GlooChannel collectives_{*context_}, sends_{*context_}, recvs_{*context_};  // each may wait beside the others
  Workspace work_{size()};
  std::atomic<bool> failed_{false};
  std::mutex reason_mutex_;
  std::string reason_;
};

// Makes Gloo groups for CPU tensors. The bootstrap must outlive it, not the groups.
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
