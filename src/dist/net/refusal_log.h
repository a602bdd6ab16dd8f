// RefusalLog: one line on stderr about each guest that is turned away, and few lines about many guests.
#pragma once
#include <chrono>
#include <string>

namespace weft {

// It says the first ten of a minute, and then how many more there were.
class RefusalLog {
 public:
  explicit RefusalLog(std::string who) : who_(std::move(who)) {}
  ~RefusalLog();
  RefusalLog(const RefusalLog&) = delete;
  RefusalLog& operator=(const RefusalLog&) = delete;
  // "note: rank 0 turned away 127.0.0.1:4711: it said nothing for 5000 ms"
  void Say(const std::string& address, const std::string& reason);

 private:
  void SayHidden();

  std::string who_;
  std::chrono::steady_clock::time_point since_{};
  int said_ = 0, hidden_ = 0;
};

}  // namespace weft
