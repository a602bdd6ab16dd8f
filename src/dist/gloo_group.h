// The CPU group across processes: Gloo's TCP transport, and collectives on it that reduce in rank order.
//
// | collective                        | steps                  | bytes sent by a rank (n ranks, B = its input)   |
// | all_reduce, small                 | 1                      | (n-1) B                                         |
// | all_reduce, large                 | 2                      | 2 (n-1)/n B                                     |
// | reduce_scatter, all_to_all        | 1                      | (n-1)/n B                                       |
// | all_gather                        | 1                      | (n-1) B                                         |
// | broadcast                         | log n                  | B each time it sends; the root log n times      |
// | barrier                           | log n                  | log n                                           |
//
// A ring would send as much, but adds in another order for every slice and, for 16-bit floats, rounds at every step.
// Here the pieces of a slice come to its owner, who reduces them as the in-process group does: both give the same bits.
#pragma once
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/gloo_context.h"
#include "dist/group_factory.h"

namespace weft {

class GlooGroup final : public ProcessGroup {
 public:
  GlooGroup(std::string name, int rank, std::vector<int> ranks, std::shared_ptr<GlooContext> context);
  // Waits for the other ranks to be done with this group too, unless it failed: a closed pair drops data not yet read.
  ~GlooGroup() override;
  void Abort(const std::string& reason) override;

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override;

 private:
  struct Call;   // one execution: the collective, its tags and its deadline
  struct Piece;  // bytes to or from a peer
  class Waits;
  using Buffer = gloo::transport::UnboundBuffer;
  void Dispatch(Call& call);
  void Exchange(Call& call, const void* in, const std::vector<Piece>& sends, void* out,
                const std::vector<Piece>& recvs);
  void AllReduce(Call& call);
  void AllReduceSmall(Call& call);
  void ReduceScatter(Call& call, const void* in, const std::vector<int64_t>& begins, void* out);
  void AllToAllV(Call& call, std::span<const int64_t> send_counts, std::span<const int64_t> recv_counts);
  void AllGatherV(Call& call, const void* in, void* out, std::span<const int64_t> counts);
  void Broadcast(Call& call);
  void BarrierAll(Call& call);
  std::byte* Scratch(size_t bytes);
  void Close();

  std::shared_ptr<GlooContext> context_;
  std::unique_ptr<std::byte[]> scratch_;  // of the collectives, which come one at a time
  size_t scratch_bytes_ = 0;
  std::atomic<bool> failed_{false};
  std::mutex reason_mutex_;
  std::string reason_;
  std::mutex waits_mutex_;
  std::vector<Buffer*> waits_;
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
  std::shared_ptr<gloo::transport::Device> device_;
};

}  // namespace weft
