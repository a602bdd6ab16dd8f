// HostOverlap: the lanes of the CPU. Each lane is a thread that makes its collectives in order, so that a rank computes
// while bytes move. Entries of the main stream run in the thread that calls Issue.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "weft/core/compile/overlap/overlap.h"
#include "weft/core/runtime/wait_word.h"

namespace weft {

class HostOverlap final : public Overlap {
 public:
  // Throws Error if the system refuses a thread.
  explicit HostOverlap(OverlapPlan plan);
  ~HostOverlap() override;
  // If a call throws, throws its exception, now and in later calls. If it was a kernel, the collectives that were
  // issued before it are made first. They end, because the other ranks issue theirs in the same order and need no later
  // one for them. If it was a collective, those that have not begun are left out.
  void Issue(absl::FunctionRef<void(size_t)> issue) override;

 private:
  struct Lane {
    std::vector<size_t> entries;
    // Counted over all runs. They wrap around.
    WaitWord issued, done;
    uint32_t before = 0;  // how many were issued before this run
    std::thread thread;
  };
  void IssueInOrder(absl::FunctionRef<void(size_t)> issue);
  void Loop(Lane& lane);
  void RunBeside(size_t i);
  void WaitFor(std::span<const size_t> collectives);
  static void WaitUntil(Lane& lane, uint32_t done);
  void Drain();
  void Stop();
  void SetFailure(std::exception_ptr error);
  void ThrowFailure();

  OverlapPlan plan_;
  std::vector<uint32_t> number_;  // per entry: its number in its lane, from 1
  std::vector<std::unique_ptr<Lane>> lanes_;
  const absl::FunctionRef<void(size_t)>* issue_ = nullptr;  // of the current run
  std::atomic<bool> stop_{false}, failed_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace weft
