#include "dist/gloo_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "dist/local_group.h"
#include "dist/reduce.h"

namespace weft {
namespace {

using Op = CollectiveOp;
using std::chrono::milliseconds;

constexpr int64_t kSmallBytes = 8192;       // an all_reduce up to this size sends everything to everyone: one step less
constexpr int64_t kSegmentBytes = 4 << 20;  // a larger one goes in segments: the scratch stays in the cache

// FNV-1a over a few numbers: the same in every process.
uint64_t Mix(std::initializer_list<uint64_t> values) {
  uint64_t h = 0xcbf29ce484222325;
  for (uint64_t v : values)
    for (int i = 0; i < 64; i += 8) h = (h ^ (v >> i & 0xff)) * 0x100000001b3;
  return h ^ (h >> 32);
}

}  // namespace

struct GlooGroup::Piece {
  int peer;
  int64_t offset, bytes;
};

// Gloo matches a send with a receive by a 64-bit slot; two in flight with one slot would end the process. Ours: 24 bits
// of the sequence number, 5 of the step, and a hash of what the call is and of the piece's size: ranks that make
// different calls never meet, and time out, instead of mixing data.
struct GlooGroup::Call {
  const Collective& c;
  uint64_t sequence;
  Deadline deadline;
  int64_t element;
  uint64_t step = 0;

  uint64_t Slot(int64_t bytes) const {
    uint64_t kind = IsPointToPoint(c.op) ? 0x100 : uint64_t(c.op);
    uint64_t reduce = IsReduction(c.op) ? uint64_t(c.reduce) : 0;
    uint64_t root = c.op == Op::kBroadcast ? uint64_t(c.peer) : 0;
    uint64_t hash = Mix({kind, uint64_t(c.dtype), reduce, root, uint64_t(bytes)});
    return hash << 29 | (step & 0x1f) << 24 | (sequence & 0xffffff);
  }
  milliseconds Left() const {
    return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()));
  }
};

// Lists the buffers of one exchange while they may be waited for.
class GlooGroup::Waits {
 public:
  Waits(GlooGroup& group, Buffer* from, Buffer* to) : group_(group), buffers_{from, to} {
    std::lock_guard lock(group_.waits_mutex_);
    group_.waits_.insert(group_.waits_.end(), buffers_, buffers_ + 2);
  }
  ~Waits() {
    std::lock_guard lock(group_.waits_mutex_);
    std::erase_if(group_.waits_, [this](Buffer* b) { return b == buffers_[0] || b == buffers_[1]; });
  }

 private:
  GlooGroup& group_;
  Buffer* buffers_[2];
};

GlooGroup::GlooGroup(std::string name, int rank, std::vector<int> ranks, std::shared_ptr<GlooContext> context)
    : ProcessGroup(std::move(name), rank, std::move(ranks), DeviceKind::kCpu), context_(std::move(context)) {}

GlooGroup::~GlooGroup() {
  StopLanes();
  if (failed_ || std::uncaught_exceptions() > 0) return;
  try {
    Collective last;
    Call call{last, 0, std::chrono::steady_clock::now() + timeout(), 1};  // real calls count from 1
    BarrierAll(call);
  } catch (const std::exception&) {  // another rank is gone already: nothing of ours is under way
  }
}

void GlooGroup::Abort(const std::string& reason) {
  {
    std::lock_guard lock(reason_mutex_);
    if (reason_.empty()) reason_ = reason;
  }
  Close();
}

// The other ranks see closed connections; the waits of this rank must be ended by hand.
void GlooGroup::Close() {
  failed_ = true;
  context_->closeConnections();
  std::lock_guard lock(waits_mutex_);
  for (auto* buffer : waits_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

void GlooGroup::Execute(const Collective& c, uint64_t sequence, Deadline deadline) {
  auto check_aborted = [this] {
    std::lock_guard lock(reason_mutex_);
    if (!reason_.empty()) throw AbortedError("aborted: " + reason_);
  };
  check_aborted();
  Call call{c, sequence, deadline, int64_t(SizeOf(c.dtype))};
  try {
    Dispatch(call);
  } catch (const std::exception& e) {
    Close();  // the others would wait for this rank in vain: they get an error now, not at their timeouts
    check_aborted();
    throw;
  }
}

void GlooGroup::Dispatch(Call& call) {
  const Collective& c = call.c;
  const int n = size();
  auto even = [&](int64_t count) { return std::vector<int64_t>(size_t(n), count); };
  switch (c.op) {
    case Op::kAllReduce:
      return AllReduce(call);
    case Op::kReduceScatter: {
      std::vector<int64_t> begins(size_t(n) + 1);
      for (int r = 0; r <= n; r++) begins[size_t(r)] = r * c.count;
      return ReduceScatter(call, c.in, begins, c.out);
    }
    case Op::kAllGather:
      return AllGatherV(call, c.in, c.out, even(c.count));
    case Op::kAllGatherV:
      return AllGatherV(call, c.in, c.out, c.recv_counts);
    case Op::kAllToAll:
      return AllToAllV(call, even(c.count), even(c.count));
    case Op::kAllToAllV:
      return AllToAllV(call, c.send_counts, c.recv_counts);
    case Op::kBroadcast:
      return Broadcast(call);
    case Op::kShift: {
      int64_t bytes = c.count * call.element;
      int from = (rank() - c.peer + n) % n, to = (rank() + c.peer) % n;
      if (c.peer == 0 && bytes) std::memcpy(c.out, c.in, size_t(bytes));
      if (c.peer == 0) return;
      return Exchange(call, c.in, {{to, 0, bytes}}, c.out, {{from, 0, bytes}});
    }
    case Op::kBarrier:
      return BarrierAll(call);
    case Op::kSend:
      return Exchange(call, c.in, {{c.peer, 0, c.count * call.element}}, nullptr, {});
    case Op::kRecv:
      return Exchange(call, nullptr, {}, c.out, {{c.peer, 0, c.count * call.element}});
  }
}

// One step: all pieces leave and arrive at the same time. Starts with the next rank, so that not all send to rank 0
// first.
void GlooGroup::Exchange(Call& call, const void* in, const std::vector<Piece>& sends, void* out,
                         const std::vector<Piece>& recvs) {
  auto end = [](const std::vector<Piece>& pieces) {
    int64_t last = 0;
    for (const Piece& p : pieces) last = std::max(last, p.offset + p.bytes);
    return size_t(last);
  };
  char none = 0;
  if (failed_) Fail("the group has failed before");
  auto from = context_->createUnboundBuffer(in ? const_cast<void*>(in) : &none, end(sends));
  auto to = context_->createUnboundBuffer(out ? out : &none, end(recvs));
  Waits registered(*this, from.get(), to.get());
  int sending = 0, receiving = 0;
  auto start = [&](const std::vector<Piece>& pieces, int& started, auto&& fn) {
    for (size_t i = 0; i < pieces.size(); i++) {
      const Piece& p = pieces[(i + size_t(rank())) % pieces.size()];
      if (p.bytes == 0) continue;
      fn(p);
      started++;
    }
  };
  start(recvs, receiving,
        [&](const Piece& p) { to->recv(p.peer, call.Slot(p.bytes), size_t(p.offset), size_t(p.bytes)); });
  start(sends, sending,
        [&](const Piece& p) { from->send(p.peer, call.Slot(p.bytes), size_t(p.offset), size_t(p.bytes)); });
  // waitX is false when Close ended it.
  while (receiving-- > 0) WEFT_CHECK(to->waitRecv(call.Left()), "the receive was aborted");
  while (sending-- > 0) WEFT_CHECK(from->waitSend(call.Left()), "the send was aborted");
  call.step++;
}

std::byte* GlooGroup::Scratch(size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

void GlooGroup::AllReduce(Call& call) {
  const Collective& c = call.c;
  if (c.count * call.element <= kSmallBytes) return AllReduceSmall(call);
  int64_t segment = kSegmentBytes / call.element;
  for (int64_t first = 0; first < c.count; first += segment) {
    int64_t count = std::min(segment, c.count - first);
    const char* in = static_cast<const char*>(c.in) + first * call.element;
    char* out = static_cast<char*>(c.out) + first * call.element;
    std::vector<int64_t> begins, counts;
    for (int r = 0; r <= size(); r++) begins.push_back(count * r / size());
    for (int r = 0; r < size(); r++) counts.push_back(begins[size_t(r) + 1] - begins[size_t(r)]);
    char* mine = out + begins[size_t(rank())] * call.element;
    ReduceScatter(call, in, begins, mine);
    AllGatherV(call, mine, out, counts);
  }
}

void GlooGroup::AllReduceSmall(Call& call) {
  const Collective& c = call.c;
  const int n = size();
  int64_t bytes = c.count * call.element;
  std::byte* all = Scratch(size_t(n * bytes));
  std::vector<Piece> sends, recvs;
  std::vector<const void*> inputs;
  for (int r = 0; r < n; r++) {
    inputs.push_back(r == rank() ? c.in : all + r * bytes);
    if (r == rank()) continue;
    sends.push_back({r, 0, bytes});
    recvs.push_back({r, r * bytes, bytes});
  }
  Exchange(call, c.in, sends, all, recvs);
  Reduce(inputs, c.out, c.count, c.dtype, c.reduce);
}

// Elements [begins[r], begins[r + 1]) of the inputs are reduced by rank r. `out` may be where this rank's slice of the
// input is.
void GlooGroup::ReduceScatter(Call& call, const void* in, const std::vector<int64_t>& begins, void* out) {
  const Collective& c = call.c;
  auto begin = [&](int r) { return begins[size_t(r)] * call.element; };
  int64_t mine = begin(rank() + 1) - begin(rank());
  std::byte* parts = Scratch(size_t(size() * mine));
  std::vector<Piece> sends, recvs;
  std::vector<const void*> inputs;
  for (int r = 0; r < size(); r++) {
    inputs.push_back(r == rank() ? static_cast<const char*>(in) + begin(r)
                                 : reinterpret_cast<const char*>(parts) + r * mine);
    if (r == rank()) continue;
    sends.push_back({r, begin(r), begin(r + 1) - begin(r)});
    recvs.push_back({r, r * mine, mine});
  }
  Exchange(call, in, sends, parts, recvs);
  Reduce(inputs, out, mine / call.element, c.dtype, c.reduce);
}

void GlooGroup::AllToAllV(Call& call, std::span<const int64_t> send_counts, std::span<const int64_t> recv_counts) {
  std::vector<Piece> sends, recvs;
  int64_t sent = 0, received = 0;
  for (int r = 0; r < size(); r++) {
    int64_t out = send_counts[size_t(r)] * call.element, in = recv_counts[size_t(r)] * call.element;
    if (r == rank()) {
      WEFT_CHECK(out == in, "a rank sends itself another count than it receives from itself");
      if (in)
        std::memcpy(static_cast<char*>(call.c.out) + received, static_cast<const char*>(call.c.in) + sent, size_t(in));
    } else {
      sends.push_back({r, sent, out});
      recvs.push_back({r, received, in});
    }
    sent += out;
    received += in;
  }
  Exchange(call, call.c.in, sends, call.c.out, recvs);
}

// `in` may be where this rank's piece of `out` is.
void GlooGroup::AllGatherV(Call& call, const void* in, void* out, std::span<const int64_t> counts) {
  std::vector<Piece> sends, recvs;
  int64_t offset = 0, mine = counts[size_t(rank())] * call.element;
  for (int r = 0; r < size(); r++) {
    int64_t bytes = counts[size_t(r)] * call.element;
    if (r != rank()) {
      sends.push_back({r, 0, mine});
      recvs.push_back({r, offset, bytes});
    } else if (char* to = static_cast<char*>(out) + offset; bytes && to != in) {
      std::memcpy(to, in, size_t(bytes));
    }
    offset += bytes;
  }
  Exchange(call, in, sends, out, recvs);
}

// A binomial tree: in step s the ranks below 2^s (counted from the root) have the data and send it to those 2^s
// further.
void GlooGroup::Broadcast(Call& call) {
  const Collective& c = call.c;
  const int n = size(), me = (rank() - c.peer + n) % n;
  int64_t bytes = c.count * call.element;
  if (me == 0 && c.in != c.out && bytes) std::memcpy(c.out, c.in, size_t(bytes));
  auto real = [&](int r) { return (r + c.peer) % n; };
  for (int have = 1; have < n; have *= 2) {
    std::vector<Piece> sends, recvs;
    if (me < have && me + have < n) sends.push_back({real(me + have), 0, bytes});
    if (me >= have && me < 2 * have) recvs.push_back({real(me - have), 0, bytes});
    Exchange(call, c.out, sends, c.out, recvs);
  }
}

// Dissemination: in step s every rank tells the one 2^s further; after log n steps all have heard of all.
void GlooGroup::BarrierAll(Call& call) {
  char token = 1, heard = 0;
  for (int far = 1; far < size(); far *= 2)
    Exchange(call, &token, {{(rank() + far) % size(), 0, 1}}, &heard, {{(rank() - far + size()) % size(), 0, 1}});
}

std::unique_ptr<ProcessGroup> GlooGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                     DeviceKind kind) {
  WEFT_CHECK(kind == DeviceKind::kCpu,
             fmt::format("group \"{}\": Gloo moves CPU tensors only, not {}", name, Name(kind)));
  auto it = std::find(ranks.begin(), ranks.end(), bootstrap_.rank());
  WEFT_CHECK(it != ranks.end(),
             fmt::format("group \"{}\": rank {} asks for a group that it is not in", name, bootstrap_.rank()));
  int rank = int(it - ranks.begin());
  if (!device_) device_ = MakeGlooDevice(bootstrap_);
  try {
    // A group of one needs no network, but takes part in the exchange.
    auto context = std::make_shared<GlooContext>(rank, ranks, bootstrap_, device_, connect_timeout_);
    if (ranks.size() == 1) return MakeSelfGroup(name, bootstrap_.rank(), kind);
    return std::make_unique<GlooGroup>(name, rank, ranks, std::move(context));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    Fail(fmt::format("group \"{}\": rank {} of {} cannot connect: {}", name, rank, ranks.size(), e.what()));
  }
}

}  // namespace weft
