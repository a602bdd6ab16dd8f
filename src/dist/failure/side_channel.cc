#include "weft/dist/failure/side_channel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMaxMessage = 16 << 20;  // a longer message is not of this protocol
constexpr char kForward = '\1';             // asks a rank to pass a notice on to the next rank
constexpr milliseconds kForwardTimeout{200};
constexpr milliseconds kGuestTimeout{500};  // to send its question and read the answer

std::string ReadText(const Socket& s, uint64_t bytes, Clock::time_point deadline) {
  WEFT_CHECK(bytes <= kMaxMessage, "side channel: a message that is too long");
  std::string text(bytes, '\0');
  ReadAll(s.fd(), text.data(), bytes, deadline, "a rank");
  return text;
}

SideChannel::Reach ReachOf(Admission admission) {
  if (admission == Admission::kWelcome) return SideChannel::Reach::kAnswered;
  if (admission == Admission::kLeft) return SideChannel::Reach::kLeft;
  // A rank that closes connections unanswered until the deadline is there, but crowded by strangers.
  bool silent = admission == Admission::kSilent || admission == Admission::kGone || admission == Admission::kNoSocket;
  return silent ? SideChannel::Reach::kSilent : SideChannel::Reach::kClosed;
}

}  // namespace

SideChannel::~SideChannel() { Close(); }

void SideChannel::Close() {
  if (!open_ || size() == 1) return;
  bootstrap_.network().OnQuestion({});
  bootstrap_.network().OnNotice({});
}

void SideChannel::Open() {
  answers_[kForward] = [this](std::string_view kind) {
    bootstrap_.network().LeaveNotice(kind.at(0));
    return std::string();
  };
  if (size() > 1) {
    bootstrap_.network().OnQuestion([this](Socket guest, const Claim& claim) { AnswerGuest(guest, claim); });
    bootstrap_.network().OnNotice([this](char kind) { AnswerTo(kind, ""); });
  }
  open_ = true;
  bootstrap_.Barrier();
}

void SideChannel::AnswerGuest(const Socket& guest, const Claim& claim) const {
  Clock::time_point deadline = Clock::now() + kGuestTimeout;
  try {
    std::string answer = AnswerTo(char(claim.detail), ReadText(guest, claim.bytes, deadline));
    uint64_t bytes = answer.size();
    WriteAll(guest.fd(), &bytes, sizeof(bytes), deadline, "a rank");
    WriteAll(guest.fd(), answer.data(), answer.size(), deadline, "a rank");
  } catch (const std::exception&) {  // it asks again or does without
  }
}

std::string SideChannel::AnswerTo(char kind, std::string_view question) const {
  auto it = answers_.find(kind);
  return it == answers_.end() ? "" : it->second(question);
}

SideChannel::Reply SideChannel::Ask(int rank, char kind, std::string_view question, milliseconds timeout) const {
  if (rank == this->rank()) return {Reach::kAnswered, AnswerTo(kind, question)};
  return AskOver(rank, kind, question, timeout);
}

SideChannel::Reply SideChannel::AskOver(int rank, char kind, std::string_view question, milliseconds timeout) const {
  if (!open_ || size() == 1) return {};  // nobody listens
  Clock::time_point deadline = Clock::now() + timeout;
  try {
    Claim claim{.detail = uint64_t(uint8_t(kind)), .bytes = question.size()};
    PeerNetwork::Call call = bootstrap_.network().Connect(rank, Purpose::kQuestion, claim, deadline);
    if (!call.socket) return {ReachOf(call.admission), ""};
    WriteAll(call.socket.fd(), question.data(), question.size(), deadline, "a rank");
    uint64_t bytes = 0;
    ReadAll(call.socket.fd(), &bytes, sizeof(bytes), deadline, "a rank");
    return {Reach::kAnswered, ReadText(call.socket, bytes, deadline)};
  } catch (const std::exception&) {
    return {Clock::now() < deadline ? Reach::kClosed : Reach::kSilent, ""};
  }
}

bool SideChannel::CanReach(int rank, milliseconds timeout) const {
  if (rank == this->rank()) return true;
  PeerNetwork::Call call = bootstrap_.network().Connect(rank, Purpose::kProbe, {}, Clock::now() + timeout);
  return call.admission != Admission::kSilent;
}

void SideChannel::Leave(int rank, char kind) const {
  if (size() > 1) Ask((rank + size() - 1) % size(), kForward, std::string(1, kind), kForwardTimeout);
}

std::vector<SideChannel::Reply> SideChannel::AskAll(char kind, std::string_view question, milliseconds timeout) const {
  std::vector<Reply> replies(static_cast<size_t>(size()));
  ForAllRanks(size(), [&](int r) { replies[size_t(r)] = Ask(r, kind, question, timeout); });
  return replies;
}

void ForAllRanks(int size, const std::function<void(int rank)>& fn) {
  constexpr int kThreads = 64;
  std::atomic<int> next{0};
  auto work = [&] {
    for (int r = next++; r < size; r = next++) fn(r);
  };
  std::vector<std::thread> threads;
  try {
    for (int t = 0; t < std::min(size, kThreads); t++) threads.emplace_back(work);
  } catch (const std::system_error&) {  // a limit allows no more threads, so this one does the rest
    work();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weft
