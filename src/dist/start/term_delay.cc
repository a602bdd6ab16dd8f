#include "weft/dist/start/term_delay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr int kDelay = 800;  // ms; mpirun kills a second after SIGTERM, and a failure report takes less

}  // namespace

TermDelay::TermDelay() : quit_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK(quit_, "signals: no event to wait for");
  thread_ = std::thread([this] { Loop(); });
}

TermDelay::~TermDelay() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(quit_.fd(), &one, sizeof(one));
  thread_.join();
}

// A signal that comes while the work is ending leaves the exit code to the work.
void TermDelay::Loop() {
  pollfd polls[] = {{signals_.fd(), POLLIN, 0}, {quit_.fd(), POLLIN, 0}};
  while (!polls[0].revents && !polls[1].revents) poll(polls, 2, -1);
  if (polls[1].revents) return;
  poll(&polls[1], 1, kDelay);
  if (polls[1].revents) return;
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

}  // namespace weft
