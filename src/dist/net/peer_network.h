// PeerNetwork: connects the ranks of a job to each other after the rendezvous.
//
// Each rank listens on one address. A thread accepts connections there at once, whatever else the rank is doing. It
// authenticates every connection by a Handshake: questions of the side channel, socket pairs of a group, and probes of
// whether a rank is there. A suspended rank cannot take part in a handshake, so every rank also keeps one connection to
// the next rank, on which it can leave notices.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/dist/net/acceptor.h"
#include "weft/dist/net/job_secret.h"

namespace weft {

class PeerNetwork {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  struct Peer {
    std::string host;
    int pid = 0;
    std::string address;
    int port = 0;
    std::string process_space;  // the pid namespace of `pid`
  };
  // Called on the network thread. It must not block, because other guests wait meanwhile.
  using Handler = std::function<void(Socket socket, const Claim& claim)>;

  // Listens on a free port of `address`, except in a world of one rank. Throws Error if it cannot.
  PeerNetwork(int rank, int size, const Key& key, const std::string& address);
  ~PeerNetwork();

  int port() const { return port_; }
  // Returns the number of unproven callers that hold a file descriptor now.
  size_t guests() const { return acceptor_ ? acceptor_->guests() : 0; }
  // Takes over the rendezvous listener and the secret. Requires rank 0, before Start. From then on, ranks that come to
  // the rendezvous are turned away.
  void Adopt(std::unique_ptr<Acceptor> rendezvous, std::unique_ptr<LocalSecret> secret);
  // Collective. Starts the thread, which answers all guests, including those that came earlier. Throws Error if the
  // next rank does not answer by the deadline.
  void Start(std::vector<Peer> peers, Deadline deadline);
  const Peer& peer(int rank) const { return peers_[size_t(rank)]; }
  // "rank 2 (host h, pid 123)"
  std::string Who(int rank) const;

  // Sets the handler of questions. With a null handler questions are refused. Returns once no call of the former
  // handler is running.
  void OnQuestion(Handler handler);

  // Sets the handler of notices from the previous rank. Returns once no call of the former handler is running.
  void OnNotice(std::function<void(char kind)> handler);
  // Leaves a notice with the next rank, which reads it as soon as it runs. Does not block.
  void LeaveNotice(char kind);

  // A proven connection to another rank, or the reason why there is none.
  struct Call {
    Socket socket;
    Admission admission = Admission::kSilent;
    int error = 0;  // errno if `admission` is kNoSocket
  };
  // Fills in the ranks and the world size of `claim`. Retries until the deadline while the other rank closes
  // connections unanswered or this process cannot open a socket.
  Call Connect(int rank, Purpose purpose, Claim claim, Deadline deadline) const;
  // Returns one connection per rank in `ranks`, by position, and an empty socket for this rank. `ranks` are global and
  // ascending. Collective over `ranks`, with a `group` number that no other group has. Throws Error naming a rank that
  // has ended or has not connected by the deadline. The end of a process is noticed within about half a second.
  std::vector<Socket> ConnectGroup(const std::vector<int>& ranks, uint64_t group, Deadline deadline);

 private:
  void Serve();
  void ServeGuests();
  void Take(Guest& guest);
  void TakeNotices();
  Call CallOnce(int rank, Purpose purpose, const Claim& claim, Deadline deadline) const;
  Socket CallSurely(int rank, Purpose purpose, const Claim& claim, Deadline deadline) const;
  Socket AwaitPair(int rank, uint64_t group, Deadline deadline);

  int rank_, size_;
  Key key_;
  int port_ = 0;
  std::vector<Peer> peers_;
  std::unique_ptr<Acceptor> acceptor_;  // door 0: this network's listener; door 1: the rendezvous, on rank 0
  std::unique_ptr<LocalSecret> secret_;
  Socket quit_;
  std::thread thread_;
  Socket next_;      // to the next rank
  Socket previous_;  // from the previous rank; used by the thread only
  std::mutex handler_mutex_;
  Handler question_;
  std::function<void(char)> notice_;
  std::mutex pairs_mutex_;
  std::condition_variable pair_came_;
  std::map<std::pair<uint64_t, int>, Socket> pairs_;  // by group and rank, until ConnectGroup takes them
};

}  // namespace weft
