#include "launcher/bench/collective_case.h"

#include <algorithm>
#include <array>
#include <utility>

#include "weft/core/base/rng.h"
#include "weft/core/host/rounding.h"
#include "weft/dist/group/nccl/nccl_memory.h"

namespace weft {
namespace {

// At(i) is element i of a rank's input: an integer in [0, 4). In a reduction the ranks from kTermRanks on have zeros.
// So sums stay below 256 and are exact in every dtype, including bf16 and u8.
class Pattern {
 public:
  explicit Pattern(int rank) : rank_(rank) {}
  int64_t At(int64_t i) {
    if (i / kPerBlock != block_) {
      block_ = i / kPerBlock;
      words_ = Philox(uint64_t(rank_), 0, uint64_t(block_));
    }
    int64_t at = i % kPerBlock;
    return (words_[size_t(at / kPerWord)] >> (2 * (at % kPerWord))) & 3;
  }

 private:
  static constexpr int64_t kPerWord = 16, kPerBlock = 4 * kPerWord;
  int rank_;
  int64_t block_ = -1;
  std::array<uint32_t, 4> words_{};
};
constexpr int kTermRanks = 64;

bool IsTerm(CollectiveOp op, int rank) { return !Traits(op).reduces || rank < kTermRanks; }

int64_t Sum(std::vector<Pattern>& of, int64_t i) {
  int64_t sum = 0;
  for (size_t r = 0; r < std::min(of.size(), size_t(kTermRanks)); r++) sum += of[r].At(i);
  return sum;
}

size_t Aligned(size_t bytes) { return RoundUpBytes(bytes, 256); }

// Returns element i of the output of rank `me`. `piece` is the number of elements in a rank's share, and `peer` is the
// rank that sends to `me`.
int64_t Expected(CollectiveOp op, std::vector<Pattern>& of, size_t me, size_t peer, int64_t piece, int64_t i) {
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
      return Sum(of, i);
    case CollectiveOp::kReduceScatter:
      return Sum(of, int64_t(me) * piece + i);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllGatherV:
      return of[size_t(i / piece)].At(i % piece);
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
      return of[size_t(i / piece)].At(int64_t(me) * piece + i % piece);
    case CollectiveOp::kShift:
      return of[(me + of.size() - 1) % of.size()].At(i);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return of[peer].At(i);
    case CollectiveOp::kBarrier:
      return 0;
  }
  Fail("a collective without a known result");
}

}  // namespace

size_t CollectiveCase::MemoryOf(const ProcessGroup& group, const What& what) {
  size_t element = SizeOf(what.dtype), most = std::max(size_t(what.bytes), element * size_t(group.size()));
  return 2 * Aligned(most);
}

CollectiveCase::CollectiveCase(ProcessGroup& group, DeviceRuntime& device, const What& what, BufferPtr memory)
    : group_(group), device_(device) {
  bool has_data = what.op != CollectiveOp::kBarrier, pieces = Traits(what.op).pieces;
  int64_t element = int64_t(SizeOf(what.dtype)), shares = pieces ? group.size() : 1;
  piece_ = has_data ? std::max<int64_t>(1, what.bytes / element / shares) : 0;
  bytes_ = piece_ * shares * element;
  if (Traits(what.op).own_counts) counts_.assign(size_t(group.size()), piece_);
  idle_ = IsPointToPoint(what.op) && (group.rank() ^ 1) >= group.size();
  if (idle_) return;
  call_ = CallOf(what);
  size_t used = 0;  // bytes of `memory`
  auto allocate = [&](int64_t bytes) {
    if (bytes == 0) return Tensor();
    if (!memory) return Tensor::Empty(what.dtype, {bytes / element}, device_);
    size_t begin = std::exchange(used, used + Aligned(size_t(bytes)));
    return Tensor(memory, begin, what.dtype, {bytes / element});
  };
  in_ = allocate(InputBytes(call_, group.size()));
  out_ = what.op == CollectiveOp::kBroadcast ? in_ : allocate(OutputBytes(call_, group.size(), group.rank()));
  call_.in = in_.defined() ? in_.data() : nullptr;
  call_.out = out_.defined() ? out_.data() : nullptr;
}

Collective CollectiveCase::CallOf(const What& what) const {
  Collective call{.op = what.op, .count = piece_, .dtype = what.dtype};
  if (what.op == CollectiveOp::kShift) call.peer = 1 % group_.size();
  if (what.op == CollectiveOp::kAllGatherV || what.op == CollectiveOp::kAllToAllV) call.recv_counts = counts_;
  if (what.op == CollectiveOp::kAllToAllV) {
    call.send_counts = counts_;
    call.count = piece_ * group_.size();
  }
  if (!IsPointToPoint(what.op)) return call;
  bool even = group_.rank() % 2 == 0;
  call.op = even == (what.op == CollectiveOp::kSend) ? CollectiveOp::kSend : CollectiveOp::kRecv;
  call.peer = group_.rank() ^ 1;
  return call;
}

void CollectiveCase::Reset() {
  if (out_.defined()) device_.Fill(out_.data(), 0xFF, out_.bytes());
  if (in_.defined()) {
    Tensor host = Tensor::Zeros(in_.dtype(), in_.shape());
    Pattern pattern(group_.rank());
    if (IsTerm(call_.op, group_.rank()))
      Dispatch(in_.dtype(), [&](auto zero) {
        using T = decltype(zero);
        for (int64_t i = 0; i < host.num_elements(); i++) host.as<T>()[i] = T(Compute<T>(pattern.At(i)));
      });
    device_.Copy(in_.data(), host.data(), host.bytes());
    device_.Synchronize();  // the copy reads `host`
  }
  device_.Synchronize();
}

void CollectiveCase::Enqueue() {
  if (!idle_) group_.Enqueue(call_);
}

int64_t CollectiveCase::Wrong() {
  device_.Synchronize();
  if (!out_.defined()) return 0;
  Tensor host = out_.To(CpuRuntime());
  std::vector<Pattern> of;
  for (int r = 0; r < group_.size(); r++) of.emplace_back(r);
  int64_t wrong = 0;
  Dispatch(host.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < host.num_elements(); i++) {
      int64_t expected = Expected(call_.op, of, size_t(group_.rank()), size_t(call_.peer), piece_, i);
      wrong += double(Compute<T>(host.as<T>()[i])) != double(expected);
    }
  });
  return wrong;
}

}  // namespace weft
