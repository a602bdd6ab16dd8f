// The collectives of a Gloo group, with the messages of each step.
//
// | collective                   | steps  | bytes sent per rank (n ranks, B: its input) | bytes received        |
// | all_reduce up to kSmallBytes | 1      | (n-1) B                                     | the same              |
// | all_reduce, in segments      | 2 each | B + (n-2) s; s: its slices, about B / n     | the same              |
// | reduce_scatter, all_to_all   | 1      | (n-1)/n B                                   | the same              |
// | all_gather                   | 1      | (n-1) B                                     | the same              |
// | all_gather_v                 | 1      | (n-1) B                                     | B of each other rank  |
// | all_to_all_v                 | 1      | B without the piece for itself              | pieces of other ranks |
// | broadcast                    | log n  | B per send; the root sends log n times      | B; the root 0         |
// | reduce                       | 1      | B; the root 0                               | 0; the root (n-1) B   |
// | shift                        | 1      | B; 0 for a shift by 0                       | the same              |
// | barrier                      | log n  | log n                                       | the same              |
#include <algorithm>
#include <cstring>

#include "weft/dist/group/gloo/gloo_call.h"
#include "weft/dist/group/reduce.h"

namespace weft {
namespace {

using Op = CollectiveOp;

const char* At(const void* data, int64_t bytes) { return static_cast<const char*>(data) + bytes; }
char* At(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes && to != from) std::memcpy(to, from, size_t(bytes));
}

}  // namespace

GlooGroup::Workspace::Workspace(int ranks) : begins(size_t(ranks) + 1), counts(static_cast<size_t>(ranks)) {
  sends.reserve(size_t(ranks));
  recvs.reserve(size_t(ranks));
  inputs.resize(size_t(ranks));
}

std::byte* GlooGroup::Workspace::Bytes(size_t at_least) {
  if (at_least > num_bytes) {
    bytes = std::make_unique_for_overwrite<std::byte[]>(at_least);
    num_bytes = at_least;
  }
  return bytes.get();
}

std::span<const int64_t> GlooGroup::Workspace::Even(int64_t count) {
  std::fill(counts.begin(), counts.end(), count);
  return counts;
}

void GlooGroup::Exchange(Call& call, std::span<const GlooSend> sends, std::span<const GlooRecv> recvs) {
  GlooChannel::Traffic moved = call.channel.Exchange(sends, recvs, call.tag, call.deadline);
  CountTraffic(call.c.op, moved.sent, moved.received);
  call.tag.step++;
}

struct GlooGroup::Algorithms {
  GlooGroup& group;
  Call& call;
  const Collective& c = call.c;
  Workspace& work = group.work_;
  const int64_t element = call.element;

  int rank() const { return group.rank(); }
  int size() const { return group.size(); }
  void Exchange(std::span<const GlooSend> sends, std::span<const GlooRecv> recvs) {
    group.Exchange(call, sends, recvs);
  }
  void ExchangeListed() { Exchange(work.sends, work.recvs); }

  void AllReduce() {
    if (c.count * element <= kSmallBytes) return AllReduceSmall();
    int64_t segment = kSegmentBytes / element;
    auto &begins = work.begins, &counts = work.counts;
    for (int64_t first = 0; first < c.count; first += segment) {
      int64_t count = std::min(segment, c.count - first);
      for (int r = 0; r <= size(); r++) begins[size_t(r)] = count * r / size();
      for (int r = 0; r < size(); r++) counts[size_t(r)] = begins[size_t(r) + 1] - begins[size_t(r)];
      char* out = At(c.out, first * element);
      char* mine = out + begins[size_t(rank())] * element;
      ReduceScatter(At(c.in, first * element), begins, mine);
      AllGatherV(mine, out, counts);
    }
  }

  void AllReduceSmall() {
    int64_t bytes = c.count * element;
    std::byte* all = work.Bytes(size_t(size() * bytes));
    work.sends.clear();
    work.recvs.clear();
    for (int r = 0; r < size(); r++) {
      work.inputs[size_t(r)] = r == rank() ? c.in : all + r * bytes;
      if (r == rank()) continue;
      work.sends.push_back({r, c.in, bytes});
      work.recvs.push_back({r, all + r * bytes, bytes});
    }
    ExchangeListed();
    ReduceInRankOrder(work.inputs, c.out, c.count, c.dtype, c.reduce);
  }

  // Rank r reduces elements [begins[r], begins[r + 1]) of the inputs. `out` may be this rank's slice of the input.
  void ReduceScatter(const void* in, std::span<const int64_t> begins, void* out) {
    auto begin = [&](int r) { return begins[size_t(r)] * element; };
    int64_t mine = begin(rank() + 1) - begin(rank());
    std::byte* parts = work.Bytes(size_t(size() * mine));
    work.sends.clear();
    work.recvs.clear();
    for (int r = 0; r < size(); r++) {
      work.inputs[size_t(r)] = r == rank() ? static_cast<const void*>(At(in, begin(r))) : parts + r * mine;
      if (r == rank()) continue;
      work.sends.push_back({r, At(in, begin(r)), begin(r + 1) - begin(r)});
      work.recvs.push_back({r, parts + r * mine, mine});
    }
    ExchangeListed();
    ReduceInRankOrder(work.inputs, out, mine / element, c.dtype, c.reduce);
  }

  void AllToAllV(std::span<const int64_t> send_counts, std::span<const int64_t> recv_counts) {
    int64_t sent = 0, received = 0;
    work.sends.clear();
    work.recvs.clear();
    for (int r = 0; r < size(); r++) {
      int64_t out = send_counts[size_t(r)] * element, in = recv_counts[size_t(r)] * element;
      if (r == rank()) {
        WEFT_CHECK(out == in, "a rank sends itself another count than it receives from itself");
        Copy(At(c.out, received), At(c.in, sent), in);
      } else {
        work.sends.push_back({r, At(c.in, sent), out});
        work.recvs.push_back({r, At(c.out, received), in});
      }
      sent += out;
      received += in;
    }
    ExchangeListed();
  }

  // `in` may be this rank's piece of `out`.
  void AllGatherV(const void* in, void* out, std::span<const int64_t> counts) {
    int64_t offset = 0, mine = counts[size_t(rank())] * element;
    work.sends.clear();
    work.recvs.clear();
    for (int r = 0; r < size(); r++) {
      int64_t bytes = counts[size_t(r)] * element;
      if (r == rank()) {
        Copy(At(out, offset), in, bytes);
      } else {
        work.sends.push_back({r, in, mine});
        work.recvs.push_back({r, At(out, offset), bytes});
      }
      offset += bytes;
    }
    ExchangeListed();
  }

  // A binomial tree. In step s the ranks below 2^s (counted from the root) have the data, and each sends it to the rank
  // 2^s further.
  void Broadcast() {
    const int n = size(), me = (rank() - c.peer + n) % n;
    int64_t bytes = c.count * element;
    if (me == 0) Copy(c.out, c.in, bytes);
    auto real = [&](int r) { return (r + c.peer) % n; };
    for (int have = 1; have < n; have *= 2) {
      work.sends.clear();
      work.recvs.clear();
      if (me < have && me + have < n) work.sends.push_back({real(me + have), c.out, bytes});
      if (me >= have && me < 2 * have) work.recvs.push_back({real(me - have), c.out, bytes});
      ExchangeListed();
    }
  }

  void Reduce() {
    int64_t bytes = c.count * element;
    work.sends.clear();
    work.recvs.clear();
    if (rank() != c.peer) {
      work.sends.push_back({c.peer, c.in, bytes});
      return ExchangeListed();
    }
    std::byte* parts = work.Bytes(size_t(size() * bytes));
    for (int r = 0; r < size(); r++) {
      work.inputs[size_t(r)] = r == rank() ? c.in : parts + r * bytes;
      if (r != rank()) work.recvs.push_back({r, parts + r * bytes, bytes});
    }
    ExchangeListed();
    ReduceInRankOrder(work.inputs, c.out, c.count, c.dtype, c.reduce);
  }

  void Shift() {
    const int n = size();
    int64_t bytes = c.count * element;
    if (c.peer == 0) return Copy(c.out, c.in, bytes);
    GlooSend send{(rank() + c.peer) % n, c.in, bytes};
    GlooRecv recv{(rank() - c.peer + n) % n, c.out, bytes};
    Exchange({&send, 1}, {&recv, 1});
  }

  // Dissemination barrier: in step s every rank sends to the rank 2^s further. After log n steps every rank depends on
  // all.
  void Barrier() {
    const int n = size();
    char token = 1, heard = 0;
    for (int far = 1; far < n; far *= 2) {
      GlooSend send{(rank() + far) % n, &token, 1};
      GlooRecv recv{(rank() - far + n) % n, &heard, 1};
      Exchange({&send, 1}, {&recv, 1});
    }
  }
};

void GlooGroup::Dispatch(Call& call) {
  const Collective& c = call.c;
  Algorithms run{*this, call};
  switch (c.op) {
    case Op::kAllReduce:
      return run.AllReduce();
    case Op::kReduceScatter:
      for (int r = 0; r <= size(); r++) work_.begins[size_t(r)] = r * c.count;
      return run.ReduceScatter(c.in, work_.begins, c.out);
    case Op::kAllGather:
      return run.AllGatherV(c.in, c.out, work_.Even(c.count));
    case Op::kAllGatherV:
      return run.AllGatherV(c.in, c.out, c.recv_counts);
    case Op::kAllToAll:
      work_.Even(c.count);
      return run.AllToAllV(work_.counts, work_.counts);
    case Op::kAllToAllV:
      return run.AllToAllV(c.send_counts, c.recv_counts);
    case Op::kBroadcast:
      return run.Broadcast();
    case Op::kReduce:
      return run.Reduce();
    case Op::kShift:
      return run.Shift();
    case Op::kBarrier:
      return run.Barrier();
    case Op::kSend: {
      GlooSend send{c.peer, c.in, c.count * call.element};
      return Exchange(call, {&send, 1}, {});
    }
    case Op::kRecv: {
      GlooRecv recv{c.peer, c.out, c.count * call.element};
      return Exchange(call, {}, {&recv, 1});
    }
  }
}

}  // namespace weft
