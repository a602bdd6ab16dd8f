// RankReport: what a rank says of itself, and what is known of one that says nothing, when a job has failed.
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
    kDied,     // its process is gone
    kStopped,  // its process is suspended
    kSilent,   // no answer: its host or the way there is gone, or it is suspended where no other rank sees it
    kLeft      // its process lives, but has left the job
  };
  using Time = std::chrono::steady_clock::time_point;
  State state = State::kSilent;
  std::string host;
  int pid = 0;
  // Of those that answered; times are in this process's clock.
  std::optional<Time> failed;  // when a collective or an exchange of its own failed, and how
  std::string error;
  int64_t exchanges = 0;         // of the bootstrap, that it has begun
  bool exchange_failed = false;  // it was the last of them that failed
  std::string activity;          // RankActivity::Text: what it was doing by itself
  std::vector<RecordedGroup> groups;
  std::vector<CallRecord> calls;  // oldest first
  // The ranks that it could not reach when it was asked to try, of those that were asked.
  std::vector<int> unreached;
};

// What a rank answers, without what others know of it, for a process of the same build.
std::string Encode(const RankReport& report);
// False when the bytes are cut off.
bool Decode(std::string_view bytes, RankReport* report);

}  // namespace weft
