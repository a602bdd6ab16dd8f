#include "weft/dist/failure/stop_agreement.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "weft/core/base/error.h"
#include "weft/core/host/message.h"

namespace weft {
namespace {

constexpr char kStop = 'S', kHold = 'H', kRelease = 'L', kResume = 'G';
constexpr std::chrono::milliseconds kPatience{2000};  // a separate thread answers, so this is ample on a busy host
constexpr std::chrono::milliseconds kAgain{1000};     // before all are asked again if one did not answer
constexpr int kReleases = 5;                          // attempts to send the release to a rank that has just answered

int64_t Number(std::string_view text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool Answered(const SideChannel::Reply& reply) { return reply.reach == SideChannel::Reach::kAnswered; }

}  // namespace

StopAgreement::StopAgreement(SideChannel& channel) : channel_(channel), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK(wake_, "stop: no event to wait for");
  channel.On(kStop, [this](std::string_view cause) { return Wake(cause); });
  channel.On(kHold, [this](std::string_view) { return std::to_string(gate_.Hold()); });
  channel.On(kResume, [this](std::string_view) {
    gate_.Resume();
    return std::string();
  });
  channel.On(kRelease, [this](std::string_view text) {  // "123 SIGTERM"
    gate_.Release(Number(text), std::string(text.substr(text.find(' ') + 1)));
    return std::string();
  });
}

StopAgreement::~StopAgreement() {
  channel_.Close();
  quit_ = true;
  Wake("");
  if (thread_.joinable()) thread_.join();
}

std::string StopAgreement::Wake(std::string_view cause) {
  if (!cause.empty()) {
    std::lock_guard lock(mutex_);
    asked_ = std::string(cause);
  }
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_.fd(), &one, sizeof(one));
  return "";
}

void StopAgreement::Follow(const SignalCatcher& signals, std::function<void(int)> lost) {
  lost_ = std::move(lost);
  thread_ = std::thread([this, &signals] { Loop(signals); });
}

std::optional<std::string> StopAgreement::TakeAsked() {
  uint64_t drained = 0;
  [[maybe_unused]] ssize_t n = read(wake_.fd(), &drained, sizeof(drained));
  std::lock_guard lock(mutex_);
  return std::exchange(asked_, std::nullopt);
}

// Retries until all ranks stop, because a rank that does not answer may only be slow.
void StopAgreement::Loop(const SignalCatcher& signals) {
  bool caught = false;  // this rank's own signal, whose descriptor stays readable
  std::optional<std::string> wish;
  while (!quit_) {
    pollfd polls[] = {{wake_.fd(), POLLIN, 0}, {caught ? -1 : signals.fd(), POLLIN, 0}};
    poll(polls, 2, wish ? int(kAgain.count()) : -1);
    if (std::optional<std::string> cause = TakeAsked()) wish = cause;
    if (polls[1].revents) caught = true, wish = SignalName(signals.signal());
    if (wish && !quit_ && Request(*wish)) wish.reset();
  }
}

// Once rank 0 has answered, it retries by itself.
bool StopAgreement::Request(const std::string& cause) {
  if (!gate_.cause().empty()) return true;  // the signal came to several ranks
  if (channel_.rank() == 0) return Agree(cause);
  if (Answered(channel_.Ask(0, kStop, cause, kPatience))) return true;
  Miss(cause, 0);
  return false;
}

bool StopAgreement::Agree(const std::string& cause) {
  std::vector<SideChannel::Reply> begun = channel_.AskAll(kHold, "", kPatience);
  auto lost = std::find_if_not(begun.begin(), begun.end(), Answered);
  if (lost != begun.end()) {
    channel_.AskAll(kResume, "", kPatience);
    Miss(cause, int(lost - begun.begin()));
    return false;
  }
  int64_t last = 0;
  for (const SideChannel::Reply& reply : begun) last = std::max(last, Number(reply.text));
  for (int i = 0; i < kReleases; i++) {
    std::vector<SideChannel::Reply> told = channel_.AskAll(kRelease, fmt::format("{} {}", last, cause), kPatience);
    if (std::all_of(told.begin(), told.end(), Answered)) break;
  }
  return true;
}

void StopAgreement::Miss(const std::string& cause, int rank) {
  if (lost_) lost_(rank);
  if (std::exchange(missed_, rank) == rank) return;  // reported once
  PrintStderr("weft: {}: rank {} (host {}, pid {}) does not answer, so the run continues until it does\n", cause, rank,
              channel_.peer(rank).host, channel_.peer(rank).pid);
}

}  // namespace weft
