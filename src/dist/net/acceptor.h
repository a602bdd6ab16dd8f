// Acceptor: listening sockets whose guests have to prove that they are ranks of this job.
//
// It never blocks on a guest. Each guest has a few seconds to prove itself. The number of unproven guests at all
// listeners together is bounded. At the bound, or without free file descriptors, a new guest replaces one that has not
// begun a handshake, or a random one if all have begun. A rank whose connection is closed this way connects again. Each
// refused guest is reported on stderr, with a limit on lines per minute.
//
//   Acceptor acceptor(OpenListener("127.0.0.1", 29500), key, "rank 0");
//   for (;;) {
//     std::vector<pollfd> polls = acceptor.Polls();
//     poll(polls.data(), polls.size(), acceptor.PollMs());
//     for (Guest& guest : acceptor.Serve()) ...               // proven: call Welcome or TurnAway
//   }
#pragma once
#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weft/dist/net/handshake.h"
#include "weft/dist/net/refusal_log.h"

namespace weft {

class Acceptor {
 public:
  static constexpr size_t kMaxGuests = 256;
  static constexpr std::chrono::milliseconds kPatience{5000};

  // `max_guests` bounds the unproven guests; GuestsToKeep of descriptor_limit.h computes it from the descriptor limit.
  Acceptor(Socket listener, const Key& key, const std::string& who, size_t max_guests = kMaxGuests);
  // Takes over the guests of another acceptor and its listener, which becomes door 1. The bound holds for all guests
  // together.
  void Adopt(Acceptor other);
  // Returns the number of guests that have not proved themselves. Thread-safe, unlike the other functions.
  size_t guests() const { return *count_; }

  // The sockets to poll, and the poll timeout in ms, which ends at the next guest's deadline; -1 without guests.
  std::vector<pollfd> Polls() const;
  int PollMs() const;
  // Does all work that needs no waiting. Returns the guests that have proved themselves since the last call.
  std::vector<Guest> Serve();

  // Completes the handshake of a proven guest. Returns its socket, or an empty one if the guest has left.
  Socket Welcome(Guest& guest) const;
  void TurnAway(Guest& guest, Admission admission);

 private:
  struct Door {
    Socket listener;
    Key key;
  };
  void Accept(size_t door, std::vector<Guest>& proven);
  void Take(Guest guest, std::vector<Guest>& proven);
  void MakeRoom(const std::string& why);

  std::vector<Door> doors_;
  std::vector<Guest> guests_;  // oldest first
  size_t max_guests_;
  std::unique_ptr<std::atomic<size_t>> count_ = std::make_unique<std::atomic<size_t>>(0);  // the size of guests_
  std::minstd_rand random_;
  std::unique_ptr<RefusalLog> log_;
};

}  // namespace weft
