// SideChannel: questions between the ranks of a job, independent of their collectives, at any time and from any thread.
//
// The bootstrap's PeerNetwork has a thread that answers at once, whatever else the rank is doing. So a rank that does
// not answer has ended or is suspended. Each question has a connection of its own, and a healthy job has none. It uses
// neither MPI nor the pairs of a group, because those are suspect when it is needed.
//
//   SideChannel channel(bootstrap);
//   channel.On('R', [&](std::string_view) { return Report(); });
//   channel.Open();                                            // collective
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
  // Called on the network thread. It must not block, because other questions wait meanwhile.
  using Answer = std::function<std::string(std::string_view question)>;
  // The result of a question. kClosed: its host reports that nobody listens, or the connection broke. kLeft: the rank
  // runs, but has closed its channel. kSilent: no answer in time.
  enum class Reach : uint8_t { kAnswered, kClosed, kLeft, kSilent };
  struct Reply {
    Reach reach = Reach::kSilent;
    std::string text;
  };
  using Peer = PeerNetwork::Peer;

  // The bootstrap must outlive the channel.
  explicit SideChannel(Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  ~SideChannel();

  // Sets the answer to questions of a kind. Must be called before Open, because questions may arrive from then on.
  void On(char kind, Answer answer) { answers_[kind] = std::move(answer); }
  // Collective. Once it returns, every rank answers. Throws Error if a rank does not come.
  void Open();
  // Stops answering. Objects that the answers use may be destroyed afterwards.
  void Close();

  bool IsOpen() const { return open_; }
  int rank() const { return bootstrap_.rank(); }
  int size() const { return bootstrap_.world_size(); }
  const Peer& peer(int rank) const { return bootstrap_.network().peer(rank); }
  // Returns whether the process id of `rank` is valid for `other`.
  bool Sees(int rank, int other) const { return peer(rank).process_space == peer(other).process_space; }

  Reply Ask(int rank, char kind, std::string_view question, std::chrono::milliseconds timeout) const;
  // Waits until all earlier questions and notices to this rank are processed.
  void Drain(std::chrono::milliseconds timeout) const { AskOver(rank(), '\0', "", timeout); }
  // Returns whether the network of a rank answers, or its host reports that it does not.
  bool CanReach(int rank, std::chrono::milliseconds timeout) const;
  // Leaves a notice with a rank that may be suspended. The rank processes it as a question, without an answer, once it
  // runs.
  void Leave(int rank, char kind) const;
  // Asks all ranks concurrently, including this one.
  std::vector<Reply> AskAll(char kind, std::string_view question, std::chrono::milliseconds timeout) const;

 private:
  Reply AskOver(int rank, char kind, std::string_view question, std::chrono::milliseconds timeout) const;
  void AnswerGuest(const Socket& guest, const Claim& claim) const;
  std::string AnswerTo(char kind, std::string_view question) const;

  Bootstrap& bootstrap_;
  std::map<char, Answer> answers_;
  bool open_ = false;
};

// Calls fn(rank) for all ranks, up to 64 at a time, so that few calls wait for a silent rank.
void ForAllRanks(int size, const std::function<void(int rank)>& fn);

}  // namespace weft
