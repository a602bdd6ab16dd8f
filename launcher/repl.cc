#include "launcher/repl.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "weft/core/host/message.h"
#include "weft/dist/signals/signal_catcher.h"
#include "weft/dist/start/ready_pipe.h"

namespace weft {
namespace {

// What rank 0 tells the others about its stdin.
struct Input {
  enum Kind : char { kNone, kLine, kEnd, kFault } kind = kNone;
  std::string text = {};  // of the line, or of the fault
};

class StdinLines {
 public:
  // Waits for at most kTick, so that other ranks, which wait for the answer, do not take this one for lost.
  Input Next(const SignalCatcher& interrupts);

 private:
  static constexpr int kTick = 200;  // ms
  static constexpr size_t kMostBytes = size_t{1} << 20;
  std::optional<Input> Buffered();
  Input Read();

  std::string buffer_;
  bool ended_ = false;
};

Input StdinLines::Next(const SignalCatcher& interrupts) {
  if (interrupts.signal() != 0) return {Input::kEnd};
  if (std::optional<Input> line = Buffered()) return *std::move(line);
  pollfd events[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                     {.fd = interrupts.fd(), .events = POLLIN, .revents = 0}};
  ::poll(events, 2, kTick);
  if (events[1].revents != 0) return {Input::kEnd};
  return events[0].revents != 0 ? Read() : Input();
}

std::optional<Input> StdinLines::Buffered() {
  size_t end = buffer_.find('\n');
  if (end == buffer_.npos && !ended_) return std::nullopt;
  if (end == buffer_.npos && buffer_.empty()) return Input{Input::kEnd};
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == buffer_.npos ? end : end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return Input{Input::kLine, std::move(line)};
}

Input StdinLines::Read() {
  std::array<char, 65536> block{};
  ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
  if (got < 0) return {Input::kFault, fmt::format("stdin: cannot be read ({})", std::strerror(errno))};
  if (got == 0) ended_ = true;
  buffer_.append(block.data(), size_t(got));
  if (buffer_.size() <= kMostBytes || buffer_.find('\n') != buffer_.npos) return {};
  return {Input::kFault, fmt::format("stdin: expected lines of at most {} bytes, got a longer one", kMostBytes)};
}

// The signals of rank 0. The other ranks ignore them, because they learn of an interrupt from rank 0.
class Interrupts {
 public:
  explicit Interrupts(bool reads) {
    if (reads) {
      catcher_.emplace(std::initializer_list<int>{SIGINT, SIGUSR1});
      return;
    }
    for (int signal : {SIGINT, SIGUSR1}) std::signal(signal, SIG_IGN);
  }
  const SignalCatcher& catcher() const { return *catcher_; }
  bool pending() const { return catcher_ && catcher_->signal() != 0; }
  void Rearm() {
    if (catcher_) catcher_->Rearm();
  }

 private:
  std::optional<SignalCatcher> catcher_;
};

Input NextInput(StdinLines& lines, const Interrupts& interrupts, const Ranks& ranks) {
  for (;;) {
    Input mine = ranks.rank == 0 ? lines.Next(interrupts.catcher()) : Input();
    std::string all = ranks.gather(std::string(1, mine.kind) + mine.text)[0];
    if (all[0] != Input::kNone) return {Input::Kind(all[0]), all.substr(1)};
  }
}

}  // namespace

absl::StatusOr<int64_t> Converse(TextWriter& writer, const Ranks& ranks, const ReplOutput& output) {
  Interrupts interrupts(ranks.rank == 0);
  ranks.gather("");  // from here on no rank ends by an interrupt
  if (ranks.rank == 0) ReportReady();
  StdinLines lines;
  auto goes_on = [&] { return ranks.gather(interrupts.pending() ? "stop" : "")[0].empty(); };
  int64_t tokens = 0;
  for (;;) {
    interrupts.Rearm();
    if (output.asks) output.show("> ");
    Input input = NextInput(lines, interrupts, ranks);
    if (input.kind == Input::kFault) return absl::AbortedError("weft: " + input.text);
    if (input.kind == Input::kEnd) break;
    if (absl::Status s = writer.AddLine(input.text); !s.ok()) {
      if (ranks.rank == 0) PrintStderr("the line is left out: {}\n", std::string(s.message()));
      continue;
    }
    absl::StatusOr<int64_t> count = writer.Write(output.show, goes_on);
    if (!count.ok()) return count.status();
    tokens += *count;
    output.show("\n");
    if (absl::Status s = output.finish(); !s.ok()) return s;
  }
  if (output.asks) output.show("\n");
  return tokens;
}

}  // namespace weft
