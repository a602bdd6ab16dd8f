// SideChannel: how the ranks of a job ask each other questions beside their collectives, at any time, from any thread.
//
// The bootstrap's PeerNetwork has a thread that answers at once, whatever else the rank is doing, so a rank that does
// not answer is gone or stopped. A question is a connection of its own: a job in which all goes well has none. It is
// neither MPI nor a group's pair, whose connections are the ones in doubt when it is needed.
//
//   SideChannel channel(bootstrap);
//   channel.On('R', [&](std::string_view) { return Report(); });
//   channel.Open();                                            // all ranks alike
//   SideChannel::Reply reply = channel.Ask(2, 'R', "", std::chrono::milliseconds(500));
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dist/net/peer_network.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

class SideChannel {
 public:
  // Called from the network's thread; it must not wait, for other questions wait meanwhile.
  using Answer = std::function<std::string(std::string_view question)>;
  // kClosed: its host says that nobody listens there, or it broke off; kLeft: it runs, but has closed its channel;
  // kSilent: no answer in time.
  enum class Reach : uint8_t { kAnswered, kClosed, kLeft, kSilent };
  struct Reply {
    Reach reach = Reach::kSilent;
    std::string text;
  };
  using Peer = PeerNetwork::Peer;

  // The bootstrap outlives the channel.
  explicit SideChannel(Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  ~SideChannel();

  // Who answers questions of a kind; before Open, so that whoever knows this rank's address is answered.
  void On(char kind, Answer answer) { answers_[kind] = std::move(answer); }
  // All ranks alike: from now on every rank answers. Throws Error.
  void Open();
  // Nobody is answered from now on; what the answers use may go.
  void Close();

  bool IsOpen() const { return open_; }
  int rank() const { return bootstrap_.rank(); }
  int size() const { return bootstrap_.world_size(); }
  const Peer& peer(int rank) const { return bootstrap_.network().peer(rank); }
  // Whether a rank has a process id that another one sees.
  bool Sees(int rank, int other) const { return peer(rank).process_space == peer(other).process_space; }

  Reply Ask(int rank, char kind, std::string_view question, std::chrono::milliseconds timeout) const;
  // Waits until whatever this rank was asked and told before is answered.
  void Drain(std::chrono::milliseconds timeout) const { AskOver(rank(), '\0', "", timeout); }
  // Whether a rank's network answers, or its host says that it does not.
  bool CanReach(int rank, std::chrono::milliseconds timeout) const;
  // Leaves a question, whose answer nobody waits for, with a rank that may be suspended: it takes it once it runs.
  void Leave(int rank, char kind) const;
  // All ranks at once, this one too.
  std::vector<Reply> AskAll(char kind, std::string_view question, std::chrono::milliseconds timeout) const;

 private:
  Reply AskOver(int rank, char kind, std::string_view question, std::chrono::milliseconds timeout) const;
  void AnswerGuest(const Socket& guest, const Claim& claim) const;
  std::string AnswerTo(char kind, std::string_view question) const;

  Bootstrap& bootstrap_;
  std::map<char, Answer> answers_;
  bool open_ = false;
};

// Calls fn(rank) for all ranks, many at once: few wait for another's silence.
void ForAllRanks(int size, const std::function<void(int rank)>& fn);

}  // namespace weft
