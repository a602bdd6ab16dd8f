#include "dist/acceptor.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kAcceptAtOnce = 16;       // guests that are there are served between
constexpr milliseconds kNoSockets{50};  // a pause when this process has no file descriptor left

}  // namespace

std::vector<pollfd> Acceptor::Polls() const {
  std::vector<pollfd> polls{{listener_.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_) polls.push_back({guest.socket().fd(), POLLIN, 0});
  return polls;
}

int Acceptor::PollMs() const {
  auto until = Clock::time_point::max();
  for (const Guest& guest : guests_) until = std::min(until, guest.until());
  if (guests_.empty()) return -1;
  return int(std::max(milliseconds(0), std::chrono::ceil<milliseconds>(until - Clock::now())).count());
}

void Acceptor::MakeRoom() {
  log_.Say(guests_.front().address(), fmt::format("{} others came after it before it had proved itself", kMaxGuests));
  guests_.erase(guests_.begin());
}

void Acceptor::Accept() {
  for (int i = 0; i < kAcceptAtOnce; i++) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    Socket guest(accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest && (errno == EMFILE || errno == ENFILE)) {
      if (!guests_.empty()) MakeRoom();
      std::this_thread::sleep_for(kNoSockets);
      return;
    }
    if (!guest) return;
    if (guests_.size() == kMaxGuests) MakeRoom();
    NoDelay(guest);
    guests_.emplace_back(std::move(guest), ToString(Address{from, length}), Clock::now() + kPatience);
  }
}

std::vector<Guest> Acceptor::Serve() {
  std::vector<Guest> proven, waiting;
  Accept();
  for (Guest& guest : guests_) {
    Guest::Step step = guest.Advance(key_);
    if (step == Guest::Step::kProven)
      proven.push_back(std::move(guest));
    else if (step == Guest::Step::kRefused)
      log_.Say(guest.address(), guest.reason());
    else if (step == Guest::Step::kWaiting && Clock::now() < guest.until())
      waiting.push_back(std::move(guest));
    else if (step == Guest::Step::kWaiting)
      log_.Say(guest.address(),
               fmt::format("it {} {} ms", guest.has_spoken() ? "had not proved itself within" : "said nothing for",
                           kPatience.count()));
  }
  guests_ = std::move(waiting);
  return proven;
}

Socket Acceptor::Welcome(Guest& guest) const {
  return guest.Answer(key_, Admission::kWelcome) ? guest.TakeSocket() : Socket();
}

void Acceptor::TurnAway(Guest& guest, Admission admission) {
  static_cast<void>(guest.Answer(key_, admission));  // whether or not it arrives
  log_.Say(guest.address(), fmt::format("rank {} of {} is told that this rank {}", guest.claim().from,
                                        guest.claim().size, Explain(admission)));
}

}  // namespace weft
