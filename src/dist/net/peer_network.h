// PeerNetwork: how the ranks of a job reach each other once they have met.
//
// Each rank listens on one address, and a thread answers there at once, whatever else the rank is doing. Every
// connection between ranks comes in there and is proven by a Handshake: the questions of the side channel, the pairs of
// sockets of a group, and probes whether a rank is there. A rank that is suspended cannot take part in a handshake, so
// every rank also holds one connection to the next one, on which it can leave notices.
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
    std::string process_space;  // in which it has its pid
  };
  // Called from the network's thread; it must not wait, for other guests wait meanwhile.
  using Handler = std::function<void(Socket socket, const Claim& claim)>;

  // Listens on a free port of `address`; a world of one does not. Throws Error when it cannot.
  PeerNetwork(int rank, int size, const Key& key, const std::string& address);
  ~PeerNetwork();

  int port() const { return port_; }
  // How many callers that have not proved themselves hold a file descriptor now.
  size_t guests() const { return acceptor_ ? acceptor_->guests() : 0; }
  // Of rank 0, before Start: the place where the ranks met. Those that come later are told that they are not expected.
  void Adopt(std::unique_ptr<Acceptor> rendezvous, std::unique_ptr<LocalSecret> secret);
  // All ranks alike: from now on guests are answered; those that came before have waited. Throws Error when the next
  // rank does not answer by the deadline.
  void Start(std::vector<Peer> peers, Deadline deadline);
  const Peer& peer(int rank) const { return peers_[size_t(rank)]; }
  // "rank 2 (host h, pid 123)"
  std::string Who(int rank) const;

  // Who takes the questions. Null: nobody does any more; returns when no call of the former handler is under way.
  void OnQuestion(Handler handler);

  // Who takes the notices that the rank before this one leaves. As OnQuestion.
  void OnNotice(std::function<void(char kind)> handler);
  // Leaves a notice with the next rank, which takes it once it runs.
  void LeaveNotice(char kind);

  // A proven connection to another rank, or why there is none.
  struct Call {
    Socket socket;
    Admission admission = Admission::kSilent;
    int error = 0;  // kNoSocket: why
  };
  // `claim` without ranks and size. Calls again, until the deadline, while the other rank closes connections
  // unanswered, or this process has no socket.
  Call Connect(int rank, Purpose purpose, Claim claim, Deadline deadline) const;
  // One connection to each other rank of `ranks`, global and ascending, by position; none for this one. All of them
  // call it alike, with the same number, which no other group has. A rank that is gone meanwhile is noticed at once.
  // Throws Error naming a rank that is gone, or has not come by the deadline.
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
  std::unique_ptr<Acceptor> acceptor_;  // door 0: of this network; door 1, of rank 0: of the rendezvous
  std::unique_ptr<LocalSecret> secret_;
  Socket quit_;
  std::thread thread_;
  Socket next_;      // to the next rank
  Socket previous_;  // from the one before; of the thread
  std::mutex handler_mutex_;
  Handler question_;
  std::function<void(char)> notice_;
  std::mutex pairs_mutex_;
  std::condition_variable pair_came_;
  std::map<std::pair<uint64_t, int>, Socket> pairs_;  // by group and rank: not taken yet
};

}  // namespace weft
