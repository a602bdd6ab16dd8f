// Notices: what a run reports to people apart from its results, as "note: ..." on stderr. Only this file writes such
// lines.
//
//   Notices notices(bootstrap.rank() == 0);
//   notices.Say("device auto is the CPU");
//   notices.Follow([&](const std::string& text) { log.Write(NoteRecord{text}); });   // also gets the earlier notices
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

// Prints a note that belongs to no run: in a command that has none, or before there is a channel.
template <class... T>
void PrintNote(fmt::format_string<T...> format, T&&... values) {
  PrintStderr("{}\n", NoteLine(fmt::format(format, std::forward<T>(values)...)));
}

// The channel of one rank. Thread-safe.
class Notices {
 public:
  // One rank of a run speaks, because the others would print the same notices. With `speaks` false, Say does nothing.
  explicit Notices(bool speaks) : speaks_(speaks) {}
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  void Say(const std::string& text);  // prints a line on stderr and calls the listener
  // Sets the listener. It gets each notice once, in the thread that calls Say. Follow first passes it the notices that
  // no listener has received. With null there is no listener, and later notices are kept for the next one.
  using Listener = std::function<void(const std::string& text)>;
  void Follow(Listener listener);

 private:
  bool speaks_;
  std::mutex mutex_;
  Listener listener_;
  std::vector<std::string> unheard_;
};

}  // namespace weft
