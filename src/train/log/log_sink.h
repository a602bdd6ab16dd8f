// LogSink: one of the places that a run's records go to, each in a form of its own.
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
  // The file that it writes to; "": none.
  virtual std::string path() const { return ""; }
  // What became of the file meanwhile, for people; each once.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

 protected:
  void Note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> notes_;
};

}  // namespace weft
