#include "weft/core/host/notice.h"

namespace weft {

std::string NoteLine(std::string_view text) { return "note: " + std::string(text); }

// Calls the listener without the lock, because the listener may call Say.
void Notices::Say(const std::string& text) {
  if (!speaks_) return;
  PrintNote("{}", text);
  std::unique_lock lock(mutex_);
  if (!listener_) return unheard_.push_back(text);
  Listener listener = listener_;
  lock.unlock();
  listener(text);
}

void Notices::Follow(Listener listener) {
  std::unique_lock lock(mutex_);
  listener_ = listener;
  if (!listener) return;
  std::vector<std::string> unheard = std::exchange(unheard_, {});
  lock.unlock();
  for (const std::string& text : unheard) listener(text);
}

}  // namespace weft
