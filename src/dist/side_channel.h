// SideChannel: how the ranks of a job ask each other questions beside their collectives, at any time, from any thread.
//
// Each rank listens on one address and has a thread that answers at once, whatever else the rank is doing; so who does
// not answer is gone or stopped. A question is a connection of its own: a job in which all goes well has none. It is
// neither MPI nor Gloo, whose connections are the ones in doubt when it is needed.
//
//   SideChannel channel(bootstrap);
//   channel.On('R', [&](std::string_view) { return Report(); });
//   channel.Open();                                            // all ranks alike
//   SideChannel::Reply reply = channel.Ask(2, 'R', "", std::chrono::milliseconds(500));
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dist/bootstrap.h"
#include "dist/tcp_socket.h"

namespace weft {

class SideChannel {
 public:
  // Called from the channel's thread; it must not wait, for other questions wait behind it.
  using Answer = std::function<std::string(std::string_view question)>;
  enum class Reach : uint8_t { kAnswered, kClosed, kSilent };
  struct Reply {
    Reach reach = Reach::kSilent;
    std::string text;
  };
  struct Peer {
    std::string host;
    int pid = 0;
    std::string address;
    int port = 0;
  };

  // The bootstrap outlives the channel.
  explicit SideChannel(Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  ~SideChannel();

  // Who answers questions of a kind; before Open, so that whoever knows this rank's address is answered.
  void On(char kind, Answer answer) { answers_[kind] = std::move(answer); }
  // Listens, and lets all ranks know where. Throws Error.
  void Open();
  // Nobody is answered from now on; what the answers use may go.
  void Close();

  // The ranks know of each other.
  bool IsOpen() const { return !peers_.empty(); }
  int rank() const { return bootstrap_.rank(); }
  int size() const { return bootstrap_.world_size(); }
  const Peer& peer(int rank) const { return peers_[size_t(rank)]; }
  bool SameHost(int rank) const { return peer(rank).host == bootstrap_.host(); }

  // kClosed: its host says that nobody listens there, or it broke off; kSilent: no answer in time.
  Reply Ask(int rank, char kind, std::string_view question, std::chrono::milliseconds timeout) const;
  // Waits until whatever this rank was asked and told before is answered.
  void Drain(std::chrono::milliseconds timeout) const { AskOver(rank(), '\0', "", timeout); }
  // All ranks at once, this one too.
  std::vector<Reply> AskAll(char kind, std::string_view question, std::chrono::milliseconds timeout) const;

 private:
  using Secret = std::array<char, 16>;
  struct Header {
    Secret secret;  // of this job: strangers are not answered
    char kind;
    uint32_t bytes;
  };
  Reply AskOver(int rank, char kind, std::string_view question, std::chrono::milliseconds timeout) const;
  void Exchange(const Peer& mine);
  void Serve();
  void Accept(std::vector<Socket>& guests) const;
  void AnswerGuest(const Socket& guest) const;
  std::string AnswerTo(char kind, std::string_view question) const;

  Bootstrap& bootstrap_;
  std::map<char, Answer> answers_;
  std::vector<Peer> peers_;
  Secret secret_{};
  Socket listener_, quit_;
  std::thread thread_;
};

// Calls fn(rank) for all ranks, many at once: few wait for another's silence.
void ForAllRanks(int size, const std::function<void(int rank)>& fn);

}  // namespace weft
