// BackendTimes: how long the backends of an op take for a call, as measured on a device. Each Context has one.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// Returns the number that the whole text writes, or nullopt unless it is finite and greater than 0.
std::optional<double> MicrosecondsOf(std::string_view text);

class BackendTimes {
 public:
  // `call` describes a call, and `backend` names the one that ran it. Neither has a tab or a line break.
  void Set(std::string_view call, std::string_view backend, double microseconds);
  // Returns microseconds, or nullopt if this backend has no time for the call.
  std::optional<double> Find(std::string_view call, std::string_view backend) const;
  bool empty() const { return times_.empty(); }

  // All times as text, one per line, without loss. Add takes such text in. It throws Error for any other text.
  std::string Text() const;
  void Add(std::string_view text);

 private:
  std::map<std::string, double, std::less<>> times_;  // by "CALL\tBACKEND"
};

}  // namespace weft
