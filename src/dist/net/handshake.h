// Handshake: the two ends of a new connection prove to each other that they are ranks of one job.
//
//   caller                                    listener
//   Hello: protocol, purpose, nonce      ->
//                                        <-   Challenge: nonce
//   Claim, and the caller's HMAC         ->   the listener closes the connection if the HMAC does not match
//                                        <-   Answer, and the listener's HMAC
//
// Both codes cover both nonces, the purpose, the claim, the listener's address and port as each end sees them, and
// which end makes the code. It follows that:
// - A recorded code is of no use on another connection.
// - A code that is sent back, or used at another rank or for another purpose, does not match.
// - A program that listens at an address of its own cannot relay a handshake to a rank.
//
// The listener's address must not be translated on the way (NAT); the caller's may be. The caller proves itself first,
// so that a stranger gets no code out of a listener. No other data is sent before the handshake is complete. Data that
// follows it is neither encrypted nor signed.
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
  kRendezvous = 1,  // a rank joins the job at rank 0
  kQuestion,        // a question of the side channel
  kPair,            // a socket pair that carries the tensors of a group
  kProbe,           // checks whether a rank is there
  kNotices          // stays open for notices
};

// The caller's request.
struct Claim {
  uint32_t from = 0, to = 0;  // ranks
  uint64_t size = 0;          // the world size
  uint64_t detail = 0;        // the kind of a question, or the group of a pair
  uint64_t bytes = 0;         // payload of a question, after the handshake
  JobName job{};              // at the rendezvous only
};

// How a handshake ended. The listener sends the first five values.
enum class Admission : uint32_t {
  kWelcome = 1,
  kOtherSecret,  // the caller's code does not match
  kOtherWorld,   // the caller's claim does not match this job
  kTaken,        // the rank that the caller claims to be has already connected
  kLeft,         // the listener no longer takes connections of this purpose
  kGone,         // the listener closed the connection unanswered, as it does with too many guests
  kAbsent,       // nobody listens there
  kSilent,       // the listener did not answer in time
  kImpostor,     // the listener's code does not match
  kNoSocket      // this process could not open a socket
};
// Returns a predicate whose subject is the listener: "does not answer".
const char* Explain(Admission admission);
// Returns whether the listener has proved that it belongs to this job.
inline bool IsProven(Admission admission) {
  return admission == Admission::kWelcome || admission == Admission::kOtherWorld || admission == Admission::kTaken ||
         admission == Admission::kLeft;
}

// The caller's side, on a connected socket. Returns kWelcome if the listener has proved itself too.
Admission Introduce(const Socket& socket, const Key& key, Purpose purpose, const Claim& claim,
                    std::chrono::steady_clock::time_point deadline);

// The listener's side. It never blocks and reads only what has arrived.
class Guest {
 public:
  static constexpr uint64_t kProtocol = 0x3478'6574'6665'7721;  // changes with the protocol
  enum class Step : uint8_t {
    kWaiting,  // needs more bytes
    kProven,   // the purpose and the claim come from a rank of this job
    kRefused   // reason() says why
  };
  // `door` is the index of the listener that accepted it.
  Guest(Socket socket, std::string address, std::chrono::steady_clock::time_point until, size_t door = 0);
  size_t door() const { return door_; }
  void MoveTo(size_t door) { door_ = door; }
  Step Advance(const Key& key);
  // Completes the handshake of a proven guest. Returns false if the guest has left.
  bool Answer(const Key& key, Admission admission);

  const Socket& socket() const { return socket_; }
  Socket TakeSocket() { return std::move(socket_); }
  Purpose purpose() const { return hello_.purpose; }
  const Claim& claim() const { return proof_.claim; }
  const std::string& address() const { return address_; }  // "127.0.0.1:4711"
  const std::string& reason() const { return reason_; }
  std::chrono::steady_clock::time_point until() const { return until_; }
  bool has_spoken() const { return have_ > 0 || challenged_; }
  bool is_challenged() const { return challenged_; }  // its first message was valid

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
  size_t have_ = 0;  // bytes received of the current message
  bool challenged_ = false;
  Hello hello_{};
  Key nonce_{};
  Proof proof_{};
};

}  // namespace weft
