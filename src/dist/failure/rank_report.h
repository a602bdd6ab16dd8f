// RankReport: what a rank reports about itself in a failed job, and what others know of a rank that does not report.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dist/group/call_record.h"

namespace weft {

struct RankReport {
  enum class State : uint8_t {
    kAnswered,
    kDied,     // its process has ended
    kStopped,  // its process is suspended
    kSilent,   // no answer: its host or the network is down, or it is suspended and no other rank sees its process
    kLeft      // its process runs, but has left the job
  };
  using Time = std::chrono::steady_clock::time_point;
  State state = State::kSilent;
  std::string host;
  int pid = 0;
  // Only for ranks that answered. Times are in this process's clock.
  std::optional<Time> failed;  // the time and error of its own first failed collective or exchange
  std::string error;
  int64_t exchanges = 0;         // number of exchanges of the bootstrap that it has begun
  bool exchange_failed = false;  // the failure was in the last of these exchanges
  std::string activity;          // RankActivity::Text
  std::vector<RecordedGroup> groups;
  std::vector<CallRecord> calls;  // oldest first
  // The ranks that it could not reach, if it was asked to try.
  std::vector<int> unreached;
};

// Encodes a rank's own report, without the fields that others fill in (state, host, pid, unreached). Only a process of
// the same build can decode it.
std::string Encode(const RankReport& report);
// Returns false if the bytes are truncated or invalid.
bool Decode(std::string_view bytes, RankReport* report);

}  // namespace weft
