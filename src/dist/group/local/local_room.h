// LocalRoom: the shared state of one in-process group: a slot per rank, a barrier, mailboxes, and an abort flag.
//
// To run a collective, a rank publishes its slot, passes the barrier and reads the slots of the others. A second
// barrier before return keeps the memory that others read valid. A rank that an error ends waits for its readers
// instead. There are two sets of slots, used in turn. A rank that writes a set for call k + 2 has passed the barrier of
// call k + 1, so all ranks have finished reading it for call k. A small input is copied into the slot, which saves the
// second barrier.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/core/runtime/wait_word.h"
#include "weft/dist/group/process_group.h"

namespace weft {

class LocalRoom {
 public:
  using Deadline = ProcessGroup::Deadline;
  static constexpr int64_t kInlineBytes = 16384;  // a copy of them costs less than a barrier

  struct Slot {
    Collective call;              // with the sender's pointers; `in` points to `copy` if the input is small
    std::vector<int64_t> counts;  // those of `call`
    bool inlined = false;
    alignas(64) std::byte copy[kInlineBytes];
  };

  explicit LocalRoom(int size);

  Slot& slot(uint64_t sequence, int rank) { return slots_[(sequence & 1) * size_t(size_) + size_t(rank)]; }
  // While one exists, its rank may read memory of the others. Throws AbortedError after Abort.
  class Reading {
   public:
    explicit Reading(LocalRoom& room);
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() { room_.readers_.fetch_sub(1); }

   private:
    LocalRoom& room_;
  };
  // Blocks until no rank reads. A rank must call it after Abort and before it frees its memory.
  void AwaitReaders() const;

  // Blocks until all ranks have arrived. Throws Error at the deadline, naming the late ranks, and AbortedError after
  // Abort.
  void Arrive(int rank, uint64_t sequence, Deadline deadline);
  void Abort(const std::string& reason);

  // Point to point. `number` counts the messages from `from` to `to`, from 1. Both sides return when the message has
  // been copied.
  void Send(int from, int to, uint64_t number, const Collective& call, Deadline deadline);
  void Recv(int from, int to, uint64_t number, const Collective& call, Deadline deadline);

 private:
  static constexpr uint32_t kAborted = 1;  // bit 0 of every word; the rest counts in steps of 2
  struct Mail {                            // one per ordered pair of ranks
    WaitWord posted, taken;
    Collective call;
  };
  [[noreturn]] void ThrowAborted();
  uint32_t WaitFor(WaitWord& word, uint32_t old, Deadline deadline, const char* what, int rank);
  Mail& mail(int from, int to) { return mails_[size_t(from) * size_t(size_) + size_t(to)]; }

  int size_;
  WaitWord::Patience patience_;  // spins only if there is a core for every rank
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) WaitWord generation_;
  alignas(64) std::atomic<int> readers_{0};
  std::vector<Slot> slots_;
  std::vector<std::atomic<uint64_t>> last_seen_;  // the last call of each rank, for error messages
  std::vector<Mail> mails_;
  std::mutex reason_mutex_;
  std::string reason_;
};

}  // namespace weft
