#include "weft/dist/signals/signal_catcher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "weft/core/base/error.h"

namespace weft {
namespace {

// timeout(1) and Slurm signal a process and then its group. Two signals within this time count as one.
constexpr int64_t kOneSignal = 50'000'000;  // ns

static_assert(std::atomic<SignalCatcher*>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may take no lock");

int64_t Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::array<std::atomic<SignalCatcher*>, NSIG> SignalCatcher::alive_{};

SignalCatcher::SignalCatcher(std::initializer_list<int> signals) : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK(event_, "signals: no event to tell of them by");
  struct sigaction action {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  for (int signal : signals) {
    SignalCatcher* none = nullptr;
    if (!alive_[size_t(signal)].compare_exchange_strong(none, this)) {
      Release();
      Fail("signals: another catcher of this signal is alive in this process");
    }
    Saved& saved = saved_.emplace_back(Saved{signal, {}});
    sigaction(signal, &action, &saved.action);
  }
}

SignalCatcher::~SignalCatcher() { Release(); }

void SignalCatcher::Release() {
  for (const Saved& saved : saved_) {
    sigaction(saved.signal, &saved.action, nullptr);
    alive_[size_t(saved.signal)] = nullptr;
  }
}

void SignalCatcher::Rearm() {
  uint64_t count = 0;
  [[maybe_unused]] ssize_t taken = read(event_.fd(), &count, sizeof(count));
  signal_ = 0;
  when_ = 0;
}

void SignalCatcher::Handle(int signal) {
  int error = errno;
  if (SignalCatcher* catcher = alive_[size_t(signal)].load()) catcher->Catch(signal);
  errno = error;
}

void SignalCatcher::Catch(int signal) {
  int64_t first = 0, now = Now();
  if (when_.compare_exchange_strong(first, now)) {
    signal_ = signal;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(event_.fd(), &one, sizeof(one));
  } else if (now - first > kOneSignal) {
    std::signal(signal, SIG_DFL);
    raise(signal);  // delivered when this handler returns
  }
}

const char* SignalName(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "a signal";
  }
}

}  // namespace weft
