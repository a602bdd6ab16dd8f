// Acceptor: a listening socket whose guests have to prove that they are ranks of this job.
//
// It never waits for a guest. Each has a few seconds to prove itself; there are at most kMaxGuests that have not, and
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

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "dist/handshake.h"
#include "dist/refusal_log.h"

namespace weft {

class Acceptor {
 public:
  static constexpr size_t kMaxGuests = 256;
  static constexpr std::chrono::milliseconds kPatience{5000};

  Acceptor(Socket listener, const Key& key, const std::string& who);

  // The sockets to wait for, and how long at most: a guest may run out of time.
  std::vector<pollfd> Polls() const;
  int PollMs() const;
  // Does what can be done without waiting. Returns the guests that are proven since the last time.
  std::vector<Guest> Serve();

  // Ends the handshake of a proven guest: its socket, or none when the guest is gone.
  Socket Welcome(Guest& guest) const;
  void TurnAway(Guest& guest, Admission admission);

 private:
  void Accept(std::vector<Guest>& proven);
  void Take(Guest guest, std::vector<Guest>& proven);
  void MakeRoom(const std::string& why);

  Socket listener_;
  Key key_;
  std::vector<Guest> guests_;  // by age
  std::minstd_rand random_;
  RefusalLog log_;
};

}  // namespace weft
