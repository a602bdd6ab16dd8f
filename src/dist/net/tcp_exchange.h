// TcpExchange: a star of TCP connections through which the ranks of a world exchange a few bytes without MPI.
//
// Rank 0 listens on one address (never on all interfaces). Every other rank connects and retries until the timeout. A
// connection counts once it has proved the job's secret (job_secret.h). Other connections are turned away and do not
// delay the ranks. This is for start-up, not for tensors.
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

  // Connects all ranks. `words` are arguments that all ranks share and that tell jobs apart. Throws Error if
  // - rank 0 cannot listen on `host`:`port`,
  // - other hosts can reach that address and there is no secret,
  // - rank 0 belongs to another job,
  // - a rank ends meanwhile, or
  // - not all ranks have come within the timeout.
  TcpExchange(int rank, int size, const std::string& host, int port, std::chrono::milliseconds timeout,
              const std::string& words = "");

  // Returns the bytes of all ranks in rank order. Collective. Throws Error if a rank has ended or is late; rank 0 names
  // it, on the other ranks too.
  std::vector<std::string> AllGather(std::string_view mine, Deadline deadline);

  const Key& key() const { return key_; }  // the key that the ranks have proved to each other
  // On rank 0: the listeners that are still open at the rendezvous.
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
    std::string error;        // "" if rank 0 has let this rank in
    bool is_refused = false;  // by a listener that has proved nothing
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
  bool is_local_ = false;  // the ranks also use a LocalSecret
  Key key_{};
  JobName job_;  // on rank 0
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<LocalSecret> local_secret_;
  std::vector<Socket> peers_;  // on rank 0: by rank; on other ranks: only [0]
};

}  // namespace weft
