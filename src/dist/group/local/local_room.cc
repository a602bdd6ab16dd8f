#include "weft/dist/group/local/local_room.h"

#include <fmt/format.h>

#include <cstring>
#include <thread>

#include "weft/core/host/cores.h"

namespace weft {

LocalRoom::LocalRoom(int size)
    : size_(size),
      patience_(size <= AvailableCores() ? WaitWord::Patience() : WaitWord::Patience{.spins = 0}),
      slots_(2 * size_t(size)),
      last_seen_(size_t(size)),
      mails_(size_t(size) * size_t(size)) {}

// The lock is held to the end, so that all words have the bit when another rank's call returns.
void LocalRoom::Abort(const std::string& reason) {
  std::lock_guard lock(reason_mutex_);
  if (!reason_.empty()) return;  // only the first reason counts
  reason_ = reason;
  generation_.Or(kAborted);
  for (Mail& m : mails_) {
    m.posted.Or(kAborted);
    m.taken.Or(kAborted);
  }
}

void LocalRoom::ThrowAborted() {
  std::lock_guard lock(reason_mutex_);
  throw AbortedError("aborted: " + reason_);
}

// A reader counts itself before it looks for the abort, and AwaitReaders looks for readers after the abort. All of this
// is sequentially consistent, so either the reader sees the abort or AwaitReaders sees the reader.
LocalRoom::Reading::Reading(LocalRoom& room) : room_(room) {
  room_.readers_.fetch_add(1);
  if ((room_.generation_.load() & kAborted) == 0) return;
  room_.readers_.fetch_sub(1);
  room_.ThrowAborted();
}

void LocalRoom::AwaitReaders() const {
  while (readers_.load() > 0) std::this_thread::yield();  // they copy, and wait for nobody
}

void LocalRoom::Arrive(int rank, uint64_t sequence, Deadline deadline) {
  last_seen_[size_t(rank)].store(sequence, std::memory_order_relaxed);
  uint32_t generation = generation_.load();  // only the abort bit can change before this rank arrives
  if (generation & kAborted) ThrowAborted();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);  // made visible by the next line
    generation_.Add(2);
    return;
  }
  uint32_t now = generation_.WaitWhile(generation, deadline, patience_);
  if (now == generation) {
    std::string late;
    for (int r = 0; r < size_; r++) {
      uint64_t seen = last_seen_[size_t(r)].load(std::memory_order_relaxed);
      if (seen < sequence) late += fmt::format("{}{} (last seen at #{})", late.empty() ? "" : ", ", r, seen);
    }
    Fail(fmt::format("timed out waiting for rank {} of the group", late.empty() ? "unknown" : late));
  }
  // If the last rank arrived just before an abort, all data of this call is there, so the call continues.
  if (now == (generation | kAborted)) ThrowAborted();
}

uint32_t LocalRoom::WaitFor(WaitWord& word, uint32_t old, Deadline deadline, const char* what, int rank) {
  uint32_t now = word.WaitWhile(old, deadline, patience_);
  if (now & kAborted) ThrowAborted();
  WEFT_CHECK(now != old, fmt::format("timed out waiting for rank {} to {}", rank, what));
  return now;
}

// `posted` counts messages put into the mailbox, `taken` those copied out of it. The mailbox holds at most one.
void LocalRoom::Send(int from, int to, uint64_t number, const Collective& call, Deadline deadline) {
  Mail& m = mail(from, to);
  if (m.posted.load() & kAborted) ThrowAborted();
  m.call = call;
  m.posted.Add(2);
  WaitFor(m.taken, uint32_t(number - 1) * 2, deadline, "receive", to);
}

void LocalRoom::Recv(int from, int to, uint64_t number, const Collective& call, Deadline deadline) {
  Mail& m = mail(from, to);
  WaitFor(m.posted, uint32_t(number - 1) * 2, deadline, "send", from);
  Reading reading(*this);
  WEFT_CHECK(m.call.count == call.count && m.call.dtype == call.dtype,
             fmt::format("rank {} sends {}, rank {} expects {}", from, ToString(m.call), to, ToString(call)));
  if (call.count) std::memcpy(call.out, m.call.in, size_t(call.count) * SizeOf(call.dtype));
  m.taken.Add(2);
}

}  // namespace weft
