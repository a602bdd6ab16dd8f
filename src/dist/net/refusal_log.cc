#include "weft/dist/net/refusal_log.h"

#include "weft/core/host/notice.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLines = 10;
constexpr std::chrono::seconds kMinute{60};

}  // namespace

RefusalLog::~RefusalLog() { SayHidden(); }

void RefusalLog::SayHidden() {
  if (hidden_ > 0) PrintNote("{} turned away {} more", who_, hidden_);
  hidden_ = 0;
}

void RefusalLog::Say(const std::string& address, const std::string& reason) {
  if (Clock::now() - since_ > kMinute) {
    SayHidden();
    since_ = Clock::now();
    said_ = 0;
  }
  if (said_ == kLines) {
    hidden_++;
    return;
  }
  said_++;
  PrintNote("{} turned away {}: {}", who_, address, reason);
}

}  // namespace weft
