#include "dist/start_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/message.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};  // ranks that have all been started meet in less

}  // namespace

StartWatch::StartWatch(const SignalCatcher& signals) : signals_(signals), met_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK(met_, "signals: no event to wait for");
  thread_ = std::thread([this] { Loop(); });
}

StartWatch::~StartWatch() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(met_.fd(), &one, sizeof(one));
  thread_.join();
}

void StartWatch::Loop() const {
  pollfd polls[] = {{met_.fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
  while (!polls[0].revents && !polls[1].revents) poll(polls, 2, -1);
  if (polls[0].revents) return;
  if (WaitReady(met_.fd(), POLLIN, std::chrono::steady_clock::now() + kPatience)) return;
  PrintStderr("weft: {} before all ranks had started; nothing was begun\n", SignalName(signals_.signal()));
  std::fflush(nullptr);
  _exit(128 + signals_.signal());  // what a shell gives for the signal
}

}  // namespace weft
