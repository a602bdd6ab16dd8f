#include "weft/dist/group/local/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "weft/dist/group/local/combine.h"
#include "weft/dist/group/local/elements.h"
#include "weft/dist/group/local/local_room.h"
#include "weft/dist/group/reduce.h"

namespace weft {

using local::At;
using local::Copy;
using Op = CollectiveOp;

// The host copies the bytes and cannot reach a GPU's memory.
LocalGroup::LocalGroup(std::string name, int rank, std::vector<int> ranks, DeviceKind kind,
                       std::shared_ptr<LocalRoom> room)
    : ProcessGroup(std::move(name), rank, std::move(ranks), kind), room_(std::move(room)), inputs_(size_t(size())) {
  WEFT_CHECK(
      kind == DeviceKind::kCpu,
      fmt::format("group \"{}\": ranks of one process exchange tensors of the cpu only, got {}; make the mesh for "
                  "the cpu",
                  this->name(), Name(kind)));
}

LocalGroup::~LocalGroup() { StopLanes(); }

void LocalGroup::Abort(const std::string& reason) { room_->Abort(reason); }

void LocalGroup::Execute(const Collective& call, uint64_t sequence, Deadline deadline) {
  try {
    if (call.op == Op::kSend)
      room_->Send(rank(), call.peer, sequence, call, deadline);
    else if (call.op == Op::kRecv)
      room_->Recv(call.peer, rank(), sequence, call, deadline);
    else
      Exchange(call, sequence, deadline);
  } catch (const std::exception& e) {
    room_->Abort(fmt::format("rank {} failed in {} #{}: {}", rank(), Name(call.op), sequence, e.what()));
    room_->AwaitReaders();
    throw;
  }
}

void LocalGroup::Exchange(const Collective& call, uint64_t sequence, Deadline deadline) {
  sequence_ = sequence;
  Publish(call);
  room_->Arrive(rank(), sequence, deadline);
  auto calls = [&](int r) -> const Collective& { return room_->slot(sequence, r).call; };
  CheckCalls(call, rank(), size(), calls);
  bool inlined = true;
  for (int r = 0; r < size(); r++) inlined &= room_->slot(sequence, r).inlined;
  if (inlined) return Combine(call, rank(), size(), calls);
  if (call.op == Op::kAllReduce) {
    AllReduceLarge(call, deadline);
  } else {
    LocalRoom::Reading reading(*room_);
    Combine(call, rank(), size(), calls);
  }
  room_->Arrive(rank(), sequence, deadline);
}

void LocalGroup::Publish(const Collective& call) {
  LocalRoom::Slot& slot = room_->slot(sequence_, rank());
  int64_t bytes = InputBytes(call, size());
  slot.call = call;
  KeepCounts(slot.call, slot.counts);
  slot.inlined = bytes <= LocalRoom::kInlineBytes;
  if (!slot.inlined) return;
  bool has_input = bytes > 0 && (call.op != Op::kBroadcast || call.peer == rank());
  if (has_input) std::memcpy(slot.copy, call.in, size_t(bytes));
  slot.call.in = slot.copy;
}

// Each rank reduces one slice of all inputs into its own output, then all ranks copy the slices of the others. Only the
// owner of a slice reads it from the inputs, before the barrier, so in == out is allowed.
void LocalGroup::AllReduceLarge(const Collective& call, Deadline deadline) {
  const int n = size();
  auto begin = [&](int r) { return call.count * r / n; };
  int64_t first = begin(rank()), count = begin(rank() + 1) - first;
  for (int r = 0; r < n; r++) inputs_[size_t(r)] = At(room_->slot(sequence_, r).call.in, first, call.dtype);
  {
    LocalRoom::Reading reading(*room_);
    ReduceInRankOrder(inputs_, At(call.out, first, call.dtype), count, call.dtype, call.reduce);
  }
  room_->Arrive(rank(), sequence_, deadline);
  LocalRoom::Reading reading(*room_);
  for (int i = 1; i < n; i++) {
    int r = (rank() + i) % n;
    const void* out = room_->slot(sequence_, r).call.out;
    Copy(At(call.out, begin(r), call.dtype), At(out, begin(r), call.dtype), begin(r + 1) - begin(r), call.dtype);
  }
}

LocalWorld::LocalWorld(int size) : size_(size) {}
LocalWorld::~LocalWorld() = default;

void LocalWorld::Abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (std::exchange(aborted_, true)) return;
  reason_ = reason;
  for (auto& weak : rooms_)
    if (auto room = weak.lock()) room->Abort(reason);
}

std::shared_ptr<LocalRoom> LocalWorld::Join(const std::string& name, const std::vector<int>& ranks, DeviceKind kind,
                                            int global_rank) {
  std::lock_guard lock(mutex_);
  auto key = std::make_tuple(name, ranks, kind);
  std::vector<Pending>& list = pending_[key];
  auto it = std::find_if(list.begin(), list.end(), [&](const Pending& p) {
    return std::count(p.joined.begin(), p.joined.end(), global_rank) == 0;
  });
  if (it == list.end()) {
    it = list.insert(it, {std::make_shared<LocalRoom>(int(ranks.size())), {}});
    std::erase_if(rooms_, [](const auto& weak) { return weak.expired(); });
    rooms_.push_back(it->room);
    if (aborted_) it->room->Abort(reason_);
  }
  auto room = it->room;
  it->joined.push_back(global_rank);
  if (it->joined.size() == ranks.size()) {
    list.erase(it);
    if (list.empty()) pending_.erase(key);
  }
  return room;
}

std::unique_ptr<ProcessGroup> LocalGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                      DeviceKind kind) {
  auto it = std::find(ranks.begin(), ranks.end(), rank_);
  WEFT_CHECK(it != ranks.end(), fmt::format("group \"{}\": rank {} asks for a group that it is not in", name, rank_));
  return std::make_unique<LocalGroup>(name, int(it - ranks.begin()), ranks, kind,
                                      world_->Join(name, ranks, kind, rank_));
}

std::unique_ptr<ProcessGroup> MakeSelfGroup(const std::string& name, int global_rank, DeviceKind kind) {
  return std::make_unique<LocalGroup>(name, 0, std::vector<int>{global_rank}, kind, std::make_shared<LocalRoom>(1));
}

void RunRanks(int ranks, const RankFunction& fn, int threads_per_rank) {
  auto world = std::make_shared<LocalWorld>(ranks);
  std::mutex mutex;
  std::exception_ptr cause, consequence;  // the first of each, kept until all threads have ended
  auto keep = [&](std::exception_ptr& first) {
    std::lock_guard lock(mutex);
    if (!first) first = std::current_exception();
  };
  auto body = [&](int rank) {
    try {
      Context context(rank, ranks, threads_per_rank);
      LocalGroupFactory groups(world, rank);
      fn(context, groups);
    } catch (const AbortedError& e) {
      keep(consequence);
      world->Abort(e.what());
    } catch (const std::exception& e) {
      keep(cause);
      world->Abort(fmt::format("rank {} failed: {}", rank, e.what()));
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; r++) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
  // The error of the rank that failed comes first, because an AbortedError is its consequence on other ranks.
  if (cause) std::rethrow_exception(cause);
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace weft
