// Notices: what a run tells people beside its results, "note: ..." on stderr. All such lines are written here.
//
//   Notices notices(bootstrap.rank() == 0);
//   notices.Say("device auto is the CPU");
//   notices.Follow([&](const std::string& text) { log.Write(NoteRecord{text}); });   // hears those before, too
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/host/message.h"

namespace weft {

std::string NoteLine(std::string_view text);  // "note: TEXT"

// A line of what belongs to no run: a command without one, or what comes before there is a channel.
template <class... T>
void PrintNote(fmt::format_string<T...> format, T&&... values) {
  PrintStderr("{}\n", NoteLine(fmt::format(format, std::forward<T>(values)...)));
}

// The channel of one rank. Thread-safe.
class Notices {
 public:
  // Of the ranks of a run one speaks: the others would say the same.
  explicit Notices(bool speaks) : speaks_(speaks) {}
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  void Say(const std::string& text);  // a line on stderr, and to who follows
  // `listener` hears each notice once, from now on and those that nobody has followed yet, in the thread that says it.
  // Null: nobody follows.
  using Listener = std::function<void(const std::string& text)>;
  void Follow(Listener listener);

 private:
  bool speaks_;
  std::mutex mutex_;
  Listener listener_;
  std::vector<std::string> unheard_;
};

}  // namespace weft
