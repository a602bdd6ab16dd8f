// Acceptor: listening sockets whose guests have to prove that they are ranks of this job.
//
// It never waits for a guest. Each has a few seconds to prove itself; a bounded number have not, at all listeners, and
// one more ends another: one that has not begun a handshake, or any where all have. A rank that is ended so calls
// again. A guest that is turned away costs one line on stderr, and many of them few lines.
//
//   Acceptor acceptor(OpenListener("127.0.0.1", 29500), key, "rank 0");
//   for (;;) {
//     std::vector<pollfd> polls = acceptor.Polls();
//     poll(polls.data(), polls.size(), acceptor.PollMs());
//     for (Guest& guest : acceptor.Serve()) ...               // proven: Welcome or TurnAway
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

  // `max_guests` of this process, beside its own files: GuestsToKeep of descriptor_limit.h.
  Acceptor(Socket listener, const Key& key, const std::string& who, size_t max_guests = kMaxGuests);
  // Takes over the listener of another one, as door 1, and its guests; the bound holds for all of them.
  void Adopt(Acceptor other);
  // How many have not proved themselves. From any thread.
  size_t guests() const { return *count_; }

  // The sockets to wait for, and how long at most: a guest may run out of time.
  std::vector<pollfd> Polls() const;
  int PollMs() const;
  // Does what can be done without waiting. Returns the guests that are proven since the last time.
  std::vector<Guest> Serve();

  // Ends the handshake of a proven guest: its socket, or none when the guest is gone.
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
  std::vector<Guest> guests_;  // by age
  size_t max_guests_;
  std::unique_ptr<std::atomic<size_t>> count_ = std::make_unique<std::atomic<size_t>>(0);  // of guests_
  std::minstd_rand random_;
  std::unique_ptr<RefusalLog> log_;
};

}  // namespace weft
