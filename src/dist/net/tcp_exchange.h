// TcpExchange: a star of TCP connections through which the ranks of a world exchange a few bytes, without MPI.
//
// Rank 0 listens on one address (never on all interfaces) and every other rank connects, retrying until the timeout. A
// connection counts once it has proved the job's secret (job_secret.h); others are turned away without holding up the
// rest. It is for start-up, not for data.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dist/net/acceptor.h"
#include "weft/dist/net/job_secret.h"

namespace weft {

class TcpExchange {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects all ranks. Throws Error when rank 0 cannot listen on `host`:`port`, when there is no secret and other
  // hosts can reach that address, when rank 0 is of another job, when a rank ends meanwhile, or when not all ranks came
  // within the timeout. `words` are arguments that all ranks share and that tell jobs apart.
  TcpExchange(int rank, int size, const std::string& host, int port, std::chrono::milliseconds timeout,
              const std::string& words = "");

  // The bytes of all ranks, in order. All ranks call it alike. Throws Error when a rank is gone, or late: rank 0 says
  // who, to the others too.
  std::vector<std::string> AllGather(std::string_view mine, Deadline deadline);

  const Key& key() const { return key_; }  // what the ranks have proved to each other
  // Of rank 0: what listens at the rendezvous still.
  std::unique_ptr<Acceptor> TakeAcceptor() { return std::move(acceptor_); }
  std::unique_ptr<LocalSecret> TakeLocalSecret() { return std::move(local_secret_); }

 private:
  struct Meeting {
    const std::string& host;
    int port;
    Deadline deadline;
  };
  void FindSecret(const Meeting& at);
  std::optional<Key> FetchKey(const Meeting& at, Deadline deadline) const;
  void Open(const Meeting& at);
  void Listen(const Meeting& at);
  int Admit();
  void Connect(const Meeting& at);
  struct Attempt {
    std::string error;        // "" when rank 0 is there
    bool is_refused = false;  // by whoever listens there, without a proof
  };
  Attempt Call(const Meeting& at);
  Attempt CallAt(const Address& address, const Meeting& at);
  std::string Absent() const;  // "1, 3"
  [[noreturn]] void FailAll(const std::string& error);
  void Collect(std::vector<std::string>& all, Deadline deadline);
  void Distribute(const std::vector<std::string>& all, Deadline deadline);
  std::string Receive(int rank, Deadline deadline);
  void SendTo(int rank, std::string_view bytes, Deadline deadline);

  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::string words_;
  bool is_local_ = false;  // the ranks also share a secret of their user on this host
  Key key_{};
  JobName job_;  // of rank 0
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<LocalSecret> local_secret_;
  std::vector<Socket> peers_;  // of rank 0: by rank; of the others: [0] alone
};

}  // namespace weft
