// HangGuard: ends the process when a call into a library that takes no deadline does not return.
//
//   {
//     HangGuard guard("rank 3", "MPI_Init", std::chrono::minutes(5));
//     MPI_Init(...);
//   }
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace weft {

class HangGuard {
 public:
  // If the call takes more than 30 seconds, rank 0 prints a note on stderr. After `limit` any rank prints an error that
  // names `who` and `call`, and the process ends with exit code 1.
  HangGuard(std::string who, std::string call, std::chrono::milliseconds limit);
  ~HangGuard();
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

 private:
  void Watch(std::chrono::milliseconds limit);
  // Returns whether the call returned before `by`.
  bool Returned(std::chrono::steady_clock::time_point by);

  std::string who_, call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool returned_ = false;
  std::thread thread_;
};

}  // namespace weft
