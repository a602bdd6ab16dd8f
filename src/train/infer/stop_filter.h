// StopFilter: passes on the bytes of a text up to the first of its stop strings.
//
//   StopFilter filter({"\n\n", "User:"});
//   shown += filter.Add(bytes);
//   if (!filter.stopped()) shown += filter.End();
//
// The stop string whose last byte comes first ends the text. If two end at the same byte, the longer one counts. So the
// result does not depend on the pieces in which the text arrives, that is, on tokens.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class StopFilter {
 public:
  // Stop strings must not be empty.
  explicit StopFilter(const std::deque<std::string>& stops);
  // Returns the bytes that no stop string can contain any more. Bytes that may be the beginning of one are held back.
  // After a stop string, returns "".
  std::string Add(std::string_view bytes);
  // Ends the text. Returns the bytes that were held back; "" if a stop string ended the text.
  std::string End();
  bool stopped() const { return stopped_; }

 private:
  // A matcher by Knuth, Morris and Pratt.
  struct Matcher {
    std::string stop;
    std::vector<size_t> border;  // border[n]: length of the longest proper prefix of stop[0, n) that is also its suffix
    size_t matched = 0;          // length of the longest prefix of `stop` with which the text so far ends

    explicit Matcher(std::string text);
    bool Next(char byte);  // whether the text now ends with `stop`
  };

  std::vector<Matcher> matchers_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace weft
