// A library that replaces libnccl on hosts without a GPU. It has the functions that NcclLibrary looks up, for ranks
// that are threads with device doubles. A stream is a DeviceDouble. When the stream reaches a call, a group of the host
// runs it, without a timeout, as NCCL does. It also behaves like NCCL in these ways: a call returns before it is done,
// the calls between GroupStart and GroupEnd are one call, and aborted calls end as if they were done. It notes what
// breaks NCCL's rules for windows and groups (fake_nccl_faults).
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "double/device_double.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/nccl/nccl_api.h"

namespace weft::nccl {

constexpr auto kNever = std::chrono::hours(24);

struct MemoryWindow {
  char* data;
  size_t bytes;
};

// The state that calls share. They may end after the communicator is freed.
struct Shared {
  struct HostGroup final : LocalGroup {
    using LocalGroup::Execute;
    using LocalGroup::LocalGroup;
  };
  Shared(std::shared_ptr<LocalWorld> in, const std::string& name, int rank, const std::vector<int>& ranks, int me)
      : world(std::move(in)),
        group(name, rank, ranks, DeviceKind::kCpu, world->Join(name, ranks, DeviceKind::kCpu, me)) {}
  // Returns whether the call was done. Calls of an aborted communicator end at once and return false.
  bool Run(const Collective& call, uint64_t number) {
    if (aborted) return false;
    try {
      group.Execute(call, number, std::chrono::steady_clock::now() + kNever);
      return true;
    } catch (const std::exception&) {
      aborted = true;
      return false;
    }
  }
  uint64_t Number(CollectiveOp op, int peer) { return IsPointToPoint(op) ? ++between[{op, peer}] : ++calls; }

  std::shared_ptr<LocalWorld> world;
  HostGroup group;
  std::atomic<bool> aborted{false};
  uint64_t calls = 0;
  std::map<std::pair<CollectiveOp, int>, uint64_t> between;  // sends and receives per peer
  int splits = 0;
  bool copies = false;                                 // the policy is zero
  std::vector<std::unique_ptr<MemoryWindow>> windows;  // now registered
  int64_t registered = 0;                              // so far
  std::atomic<int64_t> under_way{0};                   // calls in windows
};

struct Communicator {
  std::shared_ptr<Shared> shared;
};

namespace {

using test::DeviceDouble;
using Op = CollectiveOp;

constexpr Result kInvalid = Result(4);

std::atomic<const char*> asked{""};
bool Asked(std::string_view what) { return asked.load() == what; }

struct Meetings {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<LocalWorld>> worlds;
  int ids = 0;
};
Meetings& TheMeetings() {
  static Meetings meetings;
  return meetings;
}

// The windows of all ranks, and counts of earlier ones.
struct Windows {
  std::mutex mutex;
  struct Memory {
    DeviceDouble* device;
    std::set<MemoryWindow*> windows;
  };
  std::map<char*, Memory> memory;  // of ncclMemAlloc
  std::string faults;
  int64_t asked = 0, allocated = 0;
  int64_t gathers = 0, exchanges = 0, symmetric = 0;  // the first two by copy engines, the last by symmetric kernels
};
Windows& TheWindows() {
  static Windows windows;
  return windows;
}
void Blame(const std::string& fault) {
  std::lock_guard lock(TheWindows().mutex);
  TheWindows().faults += fault + "; ";
}
thread_local DeviceDouble* its_device = nullptr;  // of the rank that is this thread

const MemoryWindow* Covering(const Shared& comm, const void* data, size_t bytes) {
  auto* at = static_cast<const char*>(data);
  for (const auto& w : comm.windows)
    if (w->data <= at && at + bytes <= w->data + w->bytes) return w.get();
  return nullptr;
}

// Exchanges a number among the ranks. Collective.
std::vector<int64_t> Exchange(Shared& comm, int64_t mine, uint64_t number) {
  std::vector<int64_t> all(size_t(comm.group.size()));
  comm.group.Execute({.op = Op::kAllGather, .in = &mine, .out = all.data(), .count = 1, .dtype = DType::kI64}, number,
                     std::chrono::steady_clock::now() + kNever);
  return all;
}
bool AllSame(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t n) { return n == numbers[0]; });
}

DType DTypeOf(Type type) {
  switch (type) {
    case Type::kF64:
      return DType::kF64;
    case Type::kF32:
      return DType::kF32;
    case Type::kBF16:
      return DType::kBF16;
    case Type::kF16:
      return DType::kF16;
    case Type::kI64:
      return DType::kI64;
    case Type::kI32:
      return DType::kI32;
    default:
      return DType::kU8;
  }
}

ReduceOp ReduceOf(Reduction op) {
  return op == Reduction::kMax ? ReduceOp::kMax : op == Reduction::kMin ? ReduceOp::kMin : ReduceOp::kSum;
}

// The calls of this thread between GroupStart and GroupEnd.
struct Grouped {
  int depth = 0;
  Communicator* comm = nullptr;
  Stream stream = nullptr;
  struct Piece {
    int peer;
    char* at;
    int64_t bytes;
  };
  std::vector<Piece> sends, receives;
  std::vector<std::function<void(int64_t together)>> calls;  // the collectives; each takes how many there are
};
thread_local Grouped grouped;

Result PostInWindows(Communicator* comm, Stream stream, Collective call, const MemoryWindow& in,
                     const MemoryWindow& out);

// How many calls were put together with a call. Kept from the first rank that makes the call until the last one does.
struct Together {
  std::mutex mutex;
  struct Note {
    int64_t calls = 0;
    int ranks = 0;  // that have made the call
  };
  std::map<std::tuple<std::shared_ptr<LocalWorld>, std::string, std::vector<int>, uint64_t>, Note> notes;
};
Together& Groups() {
  static Together groups;
  return groups;
}

// NCCL spreads the calls of a group over its channels, so ranks that put different calls into one group wait for each
// other forever.
void CheckGrouped(const Shared& comm, int64_t together, uint64_t number) {
  std::lock_guard lock(Groups().mutex);
  auto at = Groups().notes.try_emplace({comm.world, comm.group.name(), comm.group.ranks(), number}).first;
  Together::Note& note = at->second;
  if (note.ranks++ == 0) note.calls = together;
  if (note.calls != together) Blame("a group of other calls on other ranks");
  if (note.ranks == comm.group.size()) Groups().notes.erase(at);
}

void Give(std::function<void(int64_t together)> call) {
  if (grouped.depth > 0)
    grouped.calls.push_back(std::move(call));
  else
    call(1);
}

// As NCCL chooses, the ranks of a communicator have to agree about this.
bool HasSymmetricKernel(const Collective& call) {
  return call.op == Op::kAllGather ||
         ((call.op == Op::kAllReduce || call.op == Op::kReduceScatter) && call.reduce == ReduceOp::kSum &&
          IsFloating(call.dtype) && call.dtype != DType::kF64);
}

Result Post(Communicator* comm, Stream stream, Collective call) {
  if (!comm || !stream) return kInvalid;
  auto& device = *static_cast<DeviceDouble*>(stream);
  if (HasSymmetricKernel(call)) {
    size_t ranks = size_t(comm->shared->group.size()), bytes = size_t(call.count) * SizeOf(call.dtype);
    const MemoryWindow* in = Covering(*comm->shared, call.in, bytes * (call.op == Op::kReduceScatter ? ranks : 1));
    const MemoryWindow* out = Covering(*comm->shared, call.out, bytes * (call.op == Op::kAllGather ? ranks : 1));
    if (in && out) {
      if (!device.has_just_filled()) Blame("a symmetric kernel that may start before the kernel before it has ended");
      return PostInWindows(comm, stream, call, *in, *out);
    }
  }
  if (call.in) call.in = device.Reached(call.in);
  if (call.out) call.out = device.Reached(call.out);
  Give([&device, comm = comm->shared, call](int64_t together) {
    device.Give([&device, comm, call, together] {
      uint64_t number = comm->Number(call.op, call.peer);
      if (!IsPointToPoint(call.op)) CheckGrouped(*comm, together, number);
      device.PostAlways([comm, call, number] { comm->Run(call, number); });
    });
  });
  return Result::kSuccess;
}

// A call in windows reads and writes the other ranks' memory at the offsets of its own operands.
Result PostInWindows(Communicator* comm, Stream stream, Collective call, const MemoryWindow& in,
                     const MemoryWindow& out) {
  auto& device = *static_cast<DeviceDouble*>(stream);
  int64_t offsets[2] = {static_cast<const char*>(call.in) - in.data, static_cast<char*>(call.out) - out.data};
  call.in = device.Reached(call.in);
  call.out = device.Reached(call.out);
  Give([&device, call, in_at = offsets[0], out_at = offsets[1], comm = comm->shared](int64_t together) {
    device.Give([&device, call, in_at, out_at, comm, together] {
      comm->under_way++;
      uint64_t number = comm->calls += 3;
      CheckGrouped(*comm, together, number);
      device.PostAlways([comm, call, in_at, out_at, number] {
        try {
          bool at_other_places =
              !comm->aborted && (!AllSame(Exchange(*comm, out_at, number - 2)) ||
                                 (!AllSame(Exchange(*comm, in_at, number - 1)) && call.op != Op::kAllGather));
          if (at_other_places) Blame("a call in a window at other offsets on other ranks");
        } catch (const std::exception&) {
          comm->aborted = true;
        }
        bool done = comm->Run(call, number);
        comm->under_way--;
        std::lock_guard lock(TheWindows().mutex);
        if (!done) return;
        Windows& w = TheWindows();
        (!comm->copies ? w.symmetric : call.op == Op::kAllGather ? w.gathers : w.exchanges)++;
      });
    });
  });
  return Result::kSuccess;
}

Result PostCopies(Communicator* comm, Stream stream, const Collective& call) {
  if (Asked("copies")) return kInvalid;
  if (grouped.depth > 0) Blame("a call by copy engines in a group call");
  Shared& shared = *comm->shared;
  auto chunk = size_t(call.count) * SizeOf(call.dtype), all = chunk * size_t(shared.group.size());
  const MemoryWindow *in = Covering(shared, call.in, call.op == Op::kAllGather ? chunk : all),
                     *out = Covering(shared, call.out, all);
  if (in && out) return PostInWindows(comm, stream, call, *in, *out);
  Blame("a call by copy engines outside of a window");
  return kInvalid;
}

// NCCL matches the sends of a group with the receives of one group on the other rank, piece by piece. Ranks that divide
// an exchange in other ways wait for each other forever. Returns whether all ranks have found that their pieces match.
bool ExchangeFits(const Grouped& all, Shared& comm, uint64_t number) {
  auto ranks = size_t(comm.group.size());
  std::vector<int64_t> sent(ranks), received(ranks), theirs(ranks), verdicts(ranks);
  for (const Grouped::Piece& piece : all.sends) sent[size_t(piece.peer)]++;
  for (const Grouped::Piece& piece : all.receives) received[size_t(piece.peer)]++;
  if (!comm.Run({.op = Op::kAllToAll, .in = sent.data(), .out = theirs.data(), .count = 1, .dtype = DType::kI64},
                number))
    return false;
  int64_t fits = theirs == received;
  if (!fits) Blame("a group of other sends than the other ranks receive");
  return comm.Run({.op = Op::kAllGather, .in = &fits, .out = verdicts.data(), .count = 1, .dtype = DType::kI64},
                  number + 1) &&
         fits && AllSame(verdicts);
}

void RunGrouped(const Grouped& all, Shared& comm, uint64_t number) {
  if (!ExchangeFits(all, comm, number - 2)) {
    comm.Run({.op = Op::kBarrier}, number);  // numbers have no gaps
    return;
  }
  auto ranks = size_t(comm.group.size());
  std::vector<int64_t> sends(ranks), receives(ranks);
  std::string in, out;
  for (size_t r = 0; r < ranks; r++)
    for (const Grouped::Piece& piece : all.sends)
      if (size_t(piece.peer) == r) {
        in.append(piece.at, size_t(piece.bytes));
        sends[r] += piece.bytes;
      }
  int64_t sum = 0;
  for (const Grouped::Piece& piece : all.receives) {
    receives[size_t(piece.peer)] += piece.bytes;
    sum += piece.bytes;
  }
  out.resize(size_t(sum));
  bool done = comm.Run({.op = Op::kAllToAllV,
                        .in = in.data(),
                        .out = out.data(),
                        .count = int64_t(in.size()),
                        .dtype = DType::kU8,
                        .send_counts = sends,
                        .recv_counts = receives},
                       number);
  if (!done) return;
  size_t at = 0;
  for (size_t r = 0; r < ranks; r++)
    for (const Grouped::Piece& piece : all.receives)
      if (size_t(piece.peer) == r) {
        std::memcpy(piece.at, out.data() + at, size_t(piece.bytes));
        at += size_t(piece.bytes);
      }
}

Result PostGrouped(Grouped all) {
  auto together = int64_t(all.calls.size());
  for (const auto& call : std::exchange(all.calls, {})) call(together);
  if (!all.comm) return Result::kSuccess;
  auto& device = *static_cast<DeviceDouble*>(all.stream);
  for (auto* pieces : {&all.sends, &all.receives})
    for (Grouped::Piece& piece : *pieces) piece.at = device.Reached(piece.at);
  std::shared_ptr<Shared> comm = all.comm->shared;
  device.Give([&device, all, comm] {
    device.PostAlways([all, comm, number = comm->calls += 3] { RunGrouped(all, *comm, number); });
  });
  return Result::kSuccess;
}

Result PointToPoint(Op op, void* at, size_t bytes, int peer, Communicator* comm, Stream stream) {
  if (grouped.depth == 0)
    return Post(comm, stream,
                {.op = op, .in = at, .out = at, .count = int64_t(bytes), .dtype = DType::kU8, .peer = peer});
  grouped.comm = comm;
  grouped.stream = stream;
  auto& pieces = op == Op::kSend ? grouped.sends : grouped.receives;
  pieces.push_back({peer, static_cast<char*>(at), int64_t(bytes)});
  return Result::kSuccess;
}

}  // namespace

extern "C" {

// Sets how the fake fails from now on: "old", "newer", "unconnected", "broken", "split", "memory", "register", "copies"
// or not at all.
void fake_nccl_fail(const char* how) { asked = how; }

// Must be called by the thread of a rank before its first call that allocates memory.
void fake_nccl_device(DeviceDouble* device) { its_device = device; }

// Gets what has broken NCCL's rules since the last call.
void fake_nccl_faults(std::string* faults) {
  std::lock_guard lock(TheWindows().mutex);
  *faults = std::exchange(TheWindows().faults, {});
}

// Gets how many gathers and exchanges copy engines have made, how many calls symmetric kernels, and how many blocks of
// ncclMemAlloc are not freed.
void fake_nccl_copies(int64_t* gathers, int64_t* exchanges, int64_t* symmetric, int64_t* allocated) {
  std::lock_guard lock(TheWindows().mutex);
  *gathers = TheWindows().gathers;
  *exchanges = TheWindows().exchanges;
  *symmetric = TheWindows().symmetric;
  *allocated = TheWindows().allocated;
}

Result ncclGetVersion(int* version) {
  *version = Asked("old") ? 22703 : Asked("newer") ? 22907 : 22809;
  return Result::kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  std::lock_guard lock(TheMeetings().mutex);
  std::snprintf(id->bytes, sizeof(id->bytes), "meeting %d", ++TheMeetings().ids);
  return Result::kSuccess;
}

Result ncclCommInitRankConfig(Communicator** made, int size, UniqueId id, int rank, Config* config) {
  if (Asked("unconnected") || config->magic != 0xcafebeef || config->size != sizeof(Config)) return kInvalid;
  std::shared_ptr<LocalWorld> world;
  {
    std::lock_guard lock(TheMeetings().mutex);
    std::shared_ptr<LocalWorld>& known = TheMeetings().worlds[id.bytes];
    if (!known) known = std::make_shared<LocalWorld>(size);
    world = known;
  }
  std::vector<int> all;
  for (int r = 0; r < size; r++) all.push_back(r);
  *made = new Communicator{std::make_shared<Shared>(world, "all", rank, all, rank)};
  return Result::kSuccess;
}

Result ncclCommSplit(Communicator* from, int color, int key, Communicator** made, Config* config) {
  Shared* parent = from->shared.get();
  Shared::HostGroup& all = parent->group;
  int64_t mine[2] = {color, key};
  std::vector<int64_t> both(2 * size_t(all.size()));
  all.Execute({.op = Op::kAllGather, .in = mine, .out = both.data(), .count = 2, .dtype = DType::kI64}, ++parent->calls,
              std::chrono::steady_clock::now() + kNever);
  parent->splits++;
  if (color == kNoColor) return Result::kSuccess;
  if (Asked("split") && config->cta_policy == kCtaPolicyZero) return kInvalid;
  std::map<int64_t, int> members;  // by key
  for (int r = 0; r < all.size(); r++)
    if (both[2 * size_t(r)] == color) members[both[2 * size_t(r) + 1]] = r;
  std::vector<int> ranks;
  int rank = 0;
  for (auto [k, r] : members) {
    if (r == all.rank()) rank = int(ranks.size());
    ranks.push_back(r);
  }
  std::string name = all.name() + " split " + std::to_string(parent->splits);
  std::vector<int> world;
  for (int r : ranks) world.push_back(all.ranks()[size_t(r)]);
  *made = new Communicator{std::make_shared<Shared>(parent->world, name, rank, world, all.ranks()[size_t(all.rank())])};
  (*made)->shared->copies = config->cta_policy == kCtaPolicyZero;
  return Result::kSuccess;
}

Result ncclCommDestroy(Communicator* comm) {
  if (!comm->shared->windows.empty()) Blame("a communicator was destroyed before its windows");
  delete comm;
  return Result::kSuccess;
}

Result ncclCommAbort(Communicator* comm) {
  comm->shared->aborted = true;
  comm->shared->group.Abort("aborted");
  delete comm;  // as in NCCL, a later use of it is a use after free
  return Result::kSuccess;
}

Result ncclCommGetAsyncError(Communicator*, Result* error) {
  *error = Asked("broken") ? Result(6) : Result::kSuccess;
  return Result::kSuccess;
}

const char* ncclGetErrorString(Result result) {
  return result == kInvalid ? "invalid argument" : "remote process exited";
}
const char* ncclGetLastError(Communicator*) { return "the fake's last words"; }

Result ncclGroupStart() {
  grouped.depth++;
  return Result::kSuccess;
}

Result ncclGroupEnd() {
  if (--grouped.depth > 0) return Result::kSuccess;
  return PostGrouped(std::exchange(grouped, {}));
}

Result ncclAllReduce(const void* in, void* out, size_t count, Type type, Reduction op, Communicator* c, Stream s) {
  return Post(c, s,
              {.op = Op::kAllReduce,
               .in = in,
               .out = out,
               .count = int64_t(count),
               .dtype = DTypeOf(type),
               .reduce = ReduceOf(op)});
}

Result ncclAllGather(const void* in, void* out, size_t count, Type type, Communicator* c, Stream s) {
  Collective call{.op = Op::kAllGather, .in = in, .out = out, .count = int64_t(count), .dtype = DTypeOf(type)};
  return c && c->shared->copies ? PostCopies(c, s, call) : Post(c, s, call);
}

Result ncclAlltoAll(const void* in, void* out, size_t count, Type type, Communicator* c, Stream s) {
  Collective call{.op = Op::kAllToAll, .in = in, .out = out, .count = int64_t(count), .dtype = DTypeOf(type)};
  return c && c->shared->copies ? PostCopies(c, s, call) : Post(c, s, call);
}

Result ncclMemAlloc(void** data, size_t bytes) {
  std::lock_guard lock(TheWindows().mutex);
  if (Asked("memory") && TheWindows().asked++ % 2 == 1) return kInvalid;  // on some ranks
  *data = its_device->AllocateBytes(bytes);
  TheWindows().memory[static_cast<char*>(*data)] = {its_device, {}};  // what was left at this address has gone
  TheWindows().allocated++;
  return Result::kSuccess;
}

Result ncclMemFree(void* data) {
  std::lock_guard lock(TheWindows().mutex);
  auto it = TheWindows().memory.find(static_cast<char*>(data));
  if (it == TheWindows().memory.end()) return kInvalid;
  if (!it->second.windows.empty()) TheWindows().faults += "memory was freed before its windows; ";
  it->second.device->Release(data);
  TheWindows().allocated--;
  TheWindows().memory.erase(it);
  return Result::kSuccess;
}

Result ncclCommWindowRegister(Communicator* comm, void* data, size_t bytes, MemoryWindow** made, int flags) {
  Shared& shared = *comm->shared;
  if (!AllSame(Exchange(shared, int64_t(bytes), ++shared.calls)) ||
      !AllSame(Exchange(shared, shared.registered++, ++shared.calls)))
    Blame("ranks registered windows in other orders or sizes");
  if (Asked("register") || flags != kSymmetric) return kInvalid;
  std::lock_guard lock(TheWindows().mutex);
  auto it = TheWindows().memory.find(static_cast<char*>(data));
  if (it == TheWindows().memory.end()) return kInvalid;
  *made = shared.windows.emplace_back(new MemoryWindow{static_cast<char*>(data), bytes}).get();
  it->second.windows.insert(*made);
  return Result::kSuccess;
}

Result ncclCommWindowDeregister(Communicator* comm, MemoryWindow* window) {
  Shared& shared = *comm->shared;
  if (shared.under_way > 0) Blame("a window was deregistered while a call used it");
  std::lock_guard lock(TheWindows().mutex);
  auto it = TheWindows().memory.find(window->data);
  if (it == TheWindows().memory.end() || !it->second.windows.erase(window)) return kInvalid;
  std::erase_if(shared.windows, [window](const auto& w) { return w.get() == window; });
  return Result::kSuccess;
}

Result ncclReduceScatter(const void* in, void* out, size_t count, Type type, Reduction op, Communicator* c, Stream s) {
  return Post(c, s,
              {.op = Op::kReduceScatter,
               .in = in,
               .out = out,
               .count = int64_t(count),
               .dtype = DTypeOf(type),
               .reduce = ReduceOf(op)});
}

Result ncclBroadcast(const void* in, void* out, size_t count, Type type, int root, Communicator* c, Stream s) {
  return Post(
      c, s,
      {.op = Op::kBroadcast, .in = in, .out = out, .count = int64_t(count), .dtype = DTypeOf(type), .peer = root});
}

Result ncclReduce(const void* in, void* out, size_t count, Type type, Reduction op, int root, Communicator* c,
                  Stream s) {
  return Post(c, s,
              {.op = Op::kReduce,
               .in = in,
               .out = out,
               .count = int64_t(count),
               .dtype = DTypeOf(type),
               .reduce = ReduceOf(op),
               .peer = root});
}

Result ncclSend(const void* in, size_t count, Type, int peer, Communicator* c, Stream s) {
  return PointToPoint(Op::kSend, const_cast<void*>(in), count, peer, c, s);
}

Result ncclRecv(void* out, size_t count, Type, int peer, Communicator* c, Stream s) {
  return PointToPoint(Op::kRecv, out, count, peer, c, s);
}
}

}  // namespace weft::nccl
