// RefusalLog: prints one line on stderr for each guest that is turned away, with a limit on lines per minute.
#pragma once
#include <chrono>
#include <string>

namespace weft {

// Prints the first ten refusals of a minute, and later the number of further ones. Not thread-safe.
class RefusalLog {
 public:
  explicit RefusalLog(std::string who) : who_(std::move(who)) {}
  ~RefusalLog();
  RefusalLog(const RefusalLog&) = delete;
  RefusalLog& operator=(const RefusalLog&) = delete;
  // "note: rank 0 turned away 127.0.0.1:4711: it sent nothing for 5000 ms"
  void Say(const std::string& address, const std::string& reason);

 private:
  void SayHidden();

  std::string who_;
  std::chrono::steady_clock::time_point since_{};
  int said_ = 0, hidden_ = 0;
};

}  // namespace weft
