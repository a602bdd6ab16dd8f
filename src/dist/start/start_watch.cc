#include "weft/dist/start/start_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>

#include "weft/core/base/error.h"
#include "weft/core/host/message.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};  // a step that is about to begin does so sooner

}  // namespace

StartWatch::StartWatch(const SignalCatcher& signals)
    : signals_(signals), begun_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK(begun_, "signals: no event to wait for");
  thread_ = std::thread([this] { Loop(); });
}

StartWatch::~StartWatch() {
  Begun();
  thread_.join();
}

void StartWatch::Met() { met_ = true; }

void StartWatch::Begun() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(begun_.fd(), &one, sizeof(one));
}

void StartWatch::Loop() const {
  pollfd polls[] = {{begun_.fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
  while (!polls[0].revents && !polls[1].revents) poll(polls, 2, -1);
  if (polls[0].revents) return;
  if (WaitReady(begun_.fd(), POLLIN, std::chrono::steady_clock::now() + kPatience)) return;
  bool ends = signals_.signal() == SIGTERM || signals_.signal() == SIGINT;
  if (met_ && !ends) return;
  PrintStderr("weft: {} before the run had begun\n", SignalName(signals_.signal()));
  std::fflush(nullptr);
  _exit(128 + signals_.signal());  // as a shell reports the signal
}

}  // namespace weft
