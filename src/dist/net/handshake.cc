#include "weft/dist/net/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kProtocol = Guest::kProtocol;

struct Reply {
  Admission admission;
  Key code{};
};
// They are sent and signed as they are in memory.
static_assert(sizeof(Guest::Hello) == 48 && sizeof(Claim) == 64 && sizeof(Guest::Proof) == 96 && sizeof(Reply) == 36);

// `end` is the ListeningEnd of the connection.
Key CallerCode(const Key& key, const std::string& end, const Guest::Hello& hello, const Key& nonce,
               const Claim& claim) {
  return Hmac(key, {"weft caller", end, BytesOf(hello), BytesOf(nonce), BytesOf(claim)});
}
Key ListenerCode(const Key& key, const std::string& end, const Guest::Hello& hello, const Key& nonce,
                 const Claim& claim, Admission admission) {
  return Hmac(key, {"weft listener", end, BytesOf(hello), BytesOf(nonce), BytesOf(claim), BytesOf(admission)});
}

// A handshake message fits into any send buffer, so a partial send means that the connection is closed.
bool SendNow(const Socket& socket, const void* message, size_t bytes) {
  return send(socket.fd(), message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(bytes);
}

// Returns kWelcome when all bytes have arrived.
Admission Receive(const Socket& socket, void* message, size_t bytes, Clock::time_point deadline) {
  auto* to = static_cast<char*>(message);
  while (bytes) {
    if (!WaitReady(socket.fd(), POLLIN, deadline)) return Admission::kSilent;
    ssize_t n = recv(socket.fd(), to, bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return Admission::kGone;
    to += n;
    bytes -= size_t(n);
  }
  return Admission::kWelcome;
}

}  // namespace

const char* Explain(Admission admission) {
  switch (admission) {
    case Admission::kWelcome:
      return "answers";
    case Admission::kOtherSecret:
      return "has another secret: it is of another job, WEFT_SECRET differs between the ranks, or another program "
             "passes on what it is sent";
    case Admission::kOtherWorld:
      return "is of another job: its number of ranks, arguments, folder or launcher's job differ; choose another "
             "MASTER_PORT";
    case Admission::kTaken:
      return "has this rank already: two jobs use this address and port, or two ranks have one number";
    case Admission::kLeft:
      return "takes no such connections any more";
    case Admission::kGone:
      return "closed the connection before it answered";
    case Admission::kAbsent:
      return "does not listen any more";
    case Admission::kSilent:
      return "does not answer";
    case Admission::kImpostor:
      return "could not prove that it is of this job: another program listens there";
    case Admission::kNoSocket:
      return "could not be called, because this process cannot open a socket";
  }
  return "gave an unknown answer";
}

Admission Introduce(const Socket& socket, const Key& key, Purpose purpose, const Claim& claim,
                    Clock::time_point deadline) {
  Guest::Hello hello{kProtocol, purpose, 0, RandomKey()};
  Key nonce{};
  if (!SendNow(socket, &hello, sizeof(hello))) return Admission::kGone;
  if (Admission a = Receive(socket, &nonce, sizeof(nonce), deadline); a != Admission::kWelcome) return a;
  std::string end = ListeningEnd(socket, /*local=*/false);
  Guest::Proof proof{claim, CallerCode(key, end, hello, nonce, claim)};
  if (!SendNow(socket, &proof, sizeof(proof))) return Admission::kGone;
  Reply reply{};
  if (Admission a = Receive(socket, &reply, sizeof(reply), deadline); a != Admission::kWelcome) return a;
  // A listener that does not know this caller sends no code.
  if (reply.admission == Admission::kOtherSecret) return Admission::kOtherSecret;
  bool proven = SameKey(reply.code, ListenerCode(key, end, hello, nonce, claim, reply.admission));
  return proven ? reply.admission : Admission::kImpostor;
}

Guest::Guest(Socket socket, std::string address, Clock::time_point until, size_t door)
    : socket_(std::move(socket)), address_(std::move(address)), until_(until), door_(door) {}

Guest::Step Guest::Refuse(std::string reason) {
  reason_ = std::move(reason);
  return Step::kRefused;
}

// Reads what has arrived of a message of `bytes` bytes. Returns kProven once the message is complete.
Guest::Step Guest::Fill(void* message, size_t bytes) {
  ssize_t n = recv(socket_.fd(), static_cast<char*>(message) + have_, bytes - have_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kWaiting;
  if (n <= 0 && challenged_) return Refuse("it left before it had proved itself");
  if (n <= 0) return Refuse(have_ ? "it closed the connection within its first message" : "it sent nothing and left");
  have_ += size_t(n);
  return have_ == bytes ? Step::kProven : Step::kWaiting;
}

Guest::Step Guest::Challenge() {
  Step step = Fill(&hello_, sizeof(hello_));
  // Compares as soon as the first bytes arrive, because a program of another protocol may send no more and wait.
  if (std::memcmp(&hello_.protocol, &kProtocol, std::min(have_, sizeof(kProtocol))) != 0)
    return Refuse("it does not speak this protocol");
  if (step != Step::kProven) return step;
  if (purpose() < Purpose::kRendezvous || purpose() > Purpose::kNotices) return Refuse("it has no purpose known here");
  nonce_ = RandomKey();
  if (!SendNow(socket_, &nonce_, sizeof(nonce_))) return Refuse("it left before it had proved itself");
  challenged_ = true;
  have_ = 0;
  return Step::kWaiting;
}

Guest::Step Guest::Check(const Key& key) {
  if (Step step = Fill(&proof_, sizeof(proof_)); step != Step::kProven) return step;
  Key code = CallerCode(key, ListeningEnd(socket_, /*local=*/true), hello_, nonce_, proof_.claim);
  if (SameKey(proof_.code, code)) return Step::kProven;
  Reply reply{Admission::kOtherSecret};
  SendNow(socket_, &reply, sizeof(reply));  // it is turned away even if this does not arrive
  return Refuse("its proof does not fit: it is of another job, or WEFT_SECRET differs between the ranks");
}

Guest::Step Guest::Advance(const Key& key) {
  Step step = challenged_ ? Step::kWaiting : Challenge();
  return challenged_ && step == Step::kWaiting ? Check(key) : step;
}

bool Guest::Answer(const Key& key, Admission admission) {
  std::string end = ListeningEnd(socket_, /*local=*/true);
  Reply reply{admission, ListenerCode(key, end, hello_, nonce_, proof_.claim, admission)};
  return SendNow(socket_, &reply, sizeof(reply));
}

}  // namespace weft
