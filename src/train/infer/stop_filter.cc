#include "weft/train/infer/stop_filter.h"

#include <algorithm>
#include <utility>

namespace weft {

StopFilter::Matcher::Matcher(std::string text) : stop(std::move(text)), border(stop.size() + 1) {
  for (size_t n = 2, k = 0; n <= stop.size(); n++) {
    while (k > 0 && stop[k] != stop[n - 1]) k = border[k];
    if (stop[k] == stop[n - 1]) k++;
    border[n] = k;
  }
}

bool StopFilter::Matcher::Next(char byte) {
  while (matched > 0 && stop[matched] != byte) matched = border[matched];
  if (stop[matched] == byte) matched++;
  return matched == stop.size();
}

StopFilter::StopFilter(const std::deque<std::string>& stops) : matchers_(stops.begin(), stops.end()) {}

std::string StopFilter::Add(std::string_view bytes) {
  std::string shown;
  for (char byte : bytes) {
    if (stopped_) break;
    held_ += byte;
    size_t longest = 0, waiting = 0;
    for (Matcher& m : matchers_) {
      if (m.Next(byte)) longest = std::max(longest, m.stop.size());
      waiting = std::max(waiting, m.matched);
    }
    stopped_ = longest > 0;
    size_t passes = held_.size() - (stopped_ ? longest : waiting);
    shown.append(held_, 0, passes);
    held_.erase(0, passes);
  }
  return shown;
}

std::string StopFilter::End() { return stopped_ ? "" : std::exchange(held_, ""); }

}  // namespace weft
