#include "weft/dist/start/slurm.h"

#include <fmt/format.h>

#include "weft/core/base/error.h"

namespace weft {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHostChar(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

// Parses a list from left to right:
//   list = item {"," item}   item = {text | "[" range {"," range} "]"}   range = digits ["-" digits]
class HostListReader {
 public:
  explicit HostListReader(std::string_view list) : list_(list) {}

  // Parses the whole list, because the beginning of a truncated list cannot be trusted.
  std::string First() {
    std::string first = Item();
    while (at_ < list_.size()) {
      Expect(',');
      Item();
    }
    return first;
  }

 private:
  char Peek() const { return at_ < list_.size() ? list_[at_] : '\0'; }
  void Check(bool ok, const char* expected) const {
    WEFT_CHECK(ok, fmt::format("\"{}\" is not a Slurm host list: expected {} at character {}, got {}", list_, expected,
                               at_ + 1, at_ < list_.size() ? fmt::format("\"{}\"", list_[at_]) : "the end"));
  }
  void Expect(char c) {
    const char text[] = {'"', c, '"', 0};
    Check(Peek() == c, text);
    at_++;
  }
  std::string_view Digits() {
    size_t begin = at_;
    while (IsDigit(Peek())) at_++;
    Check(at_ > begin, "a digit");
    return list_.substr(begin, at_ - begin);
  }
  std::string_view Range() {  // returns its first number with leading zeros
    std::string_view low = Digits();
    if (Peek() == '-') {
      at_++;
      Digits();
    }
    return low;
  }
  std::string Item() {
    std::string host;
    while (Peek() == '[' || IsHostChar(Peek())) {
      if (Peek() != '[') {
        host += list_[at_++];
        continue;
      }
      at_++;
      host += Range();
      while (Peek() == ',') {
        at_++;
        Range();
      }
      Expect(']');
    }
    Check(!host.empty(), "a host");
    return host;
  }

  std::string_view list_;
  size_t at_ = 0;
};

}  // namespace

std::string FirstSlurmHost(std::string_view list) { return HostListReader(list).First(); }

int SlurmPort(int64_t job, int64_t step) {
  return int(20000 + (uint64_t(job) * 127 + uint64_t(step)) % 10000);  // different for consecutive jobs and steps
}

}  // namespace weft
