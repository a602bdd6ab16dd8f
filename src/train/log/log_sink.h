// LogSink: one output of a run's records, with its own format.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "weft/train/log/metrics.h"

namespace weft {

class LogSink {
 public:
  virtual ~LogSink() = default;
  // Errors name the file and the system's reason.
  virtual absl::Status Write(const LogRecord& record) = 0;
  // Returns the file that it writes to, or "" if there is none.
  virtual std::string path() const { return ""; }
  // Returns messages for the user about changes to the file since the last call, and clears them.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

 protected:
  void Note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> notes_;
};

}  // namespace weft
