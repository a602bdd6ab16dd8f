// Handshake: how the two ends of a new connection prove to each other that they are ranks of one job.
//
//   caller                                    listener
//   Hello: protocol, purpose, nonce      ->
//                                        <-   Challenge: nonce
//   Claim, and the caller's HMAC         ->   an HMAC that does not fit: the connection ends here
//                                        <-   Answer, and the listener's HMAC
//
// Both codes cover both nonces, the purpose, the claim, the listener's address and port as each end sees them, and who
// makes the code. So a recorded code is of no use on another connection; a code that is sent back, or taken to another
// rank or another purpose, does not fit; and a program that listens at an address of its own cannot pass a handshake on
// to a rank. Addresses of ranks must not be translated on the way (NAT); those of callers may be. The caller is first:
// a stranger gets no code out of a listener. Nothing else is sent before. What follows on the connection is neither
// encrypted nor signed.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/dist/net/hmac.h"
#include "weft/dist/net/job_name.h"
#include "weft/dist/net/tcp_socket.h"

namespace weft {

enum class Purpose : uint32_t {
  kRendezvous = 1,  // a rank comes to rank 0
  kQuestion,        // of the side channel
  kPair,            // it carries the tensors of a group
  kProbe,           // whether a rank is there
  kNotices          // notices go over it, whenever there are any
};

// What the caller wants.
struct Claim {
  uint32_t from = 0, to = 0;  // ranks
  uint64_t size = 0;          // of the world
  uint64_t detail = 0;        // of a question its kind; of a pair its group
  uint64_t bytes = 0;         // that follow the handshake, of a question
  JobName job{};              // at the rendezvous
};

// How a handshake ended. The listener sends the first five.
enum class Admission : uint32_t {
  kWelcome = 1,
  kOtherSecret,  // the caller's proof does not fit
  kOtherWorld,   // its claim does not fit this job
  kTaken,        // the rank that it claims to be is there
  kLeft,         // nobody here takes such connections any more
  kGone,         // the listener closed the connection before it answered, as one does that others crowd
  kAbsent,       // nobody listens there
  kSilent,       // it did not answer in time
  kImpostor,     // its own proof does not fit
  kNoSocket      // this process could not open a socket to call it
};
// "the secrets differ", as a sentence about the listener goes on.
const char* Explain(Admission admission);
// Whether the listener has proved that it is of this job.
inline bool IsProven(Admission admission) {
  return admission == Admission::kWelcome || admission == Admission::kOtherWorld || admission == Admission::kTaken ||
         admission == Admission::kLeft;
}

// The caller's side of a connected socket. Returns kWelcome when the listener has proved itself too.
Admission Introduce(const Socket& socket, const Key& key, Purpose purpose, const Claim& claim,
                    std::chrono::steady_clock::time_point deadline);

// The listener's side, which never waits: it reads what is there.
class Guest {
 public:
  static constexpr uint64_t kProtocol = 0x3478'6574'6665'7721;  // changes with the protocol
  enum class Step : uint8_t {
    kWaiting,  // for more bytes
    kProven,   // purpose and claim are those of a rank of this job
    kRefused   // reason says why
  };
  // `door`: the number of the listener at which it has come.
  Guest(Socket socket, std::string address, std::chrono::steady_clock::time_point until, size_t door = 0);
  size_t door() const { return door_; }
  void MoveTo(size_t door) { door_ = door; }
  Step Advance(const Key& key);
  // Ends the handshake of a proven guest. False when it is gone.
  bool Answer(const Key& key, Admission admission);

  const Socket& socket() const { return socket_; }
  Socket TakeSocket() { return std::move(socket_); }
  Purpose purpose() const { return hello_.purpose; }
  const Claim& claim() const { return proof_.claim; }
  const std::string& address() const { return address_; }  // "127.0.0.1:4711"
  const std::string& reason() const { return reason_; }
  std::chrono::steady_clock::time_point until() const { return until_; }
  bool has_spoken() const { return have_ > 0 || challenged_; }
  bool is_challenged() const { return challenged_; }  // its first message was a good one

  struct Hello {
    uint64_t protocol;
    Purpose purpose;
    uint32_t none;
    Key nonce;
  };
  struct Proof {
    Claim claim;
    Key code;
  };

 private:
  Step Refuse(std::string reason);
  Step Fill(void* message, size_t bytes);
  Step Challenge();
  Step Check(const Key& key);

  Socket socket_;
  std::string address_, reason_;
  std::chrono::steady_clock::time_point until_;
  size_t door_;
  size_t have_ = 0;  // of the message that is under way
  bool challenged_ = false;
  Hello hello_{};
  Key nonce_{};
  Proof proof_{};
};

}  // namespace weft
