// TcpExchange: a star of TCP connections through which the ranks of a world exchange a few bytes, without MPI.
//
// Rank 0 listens on one address (never on all interfaces) and every other rank connects, retrying until the timeout. A
// connection counts once it has said a hello of this protocol for this world; others (strays, port scanners, a second
// rank of the same number) are dropped without holding up the rest. It is for start-up, not for data.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dist/tcp_socket.h"

namespace weft {

class TcpExchange {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects all ranks. Throws Error when rank 0 cannot listen on `host`:`port`, or not all ranks came within the
  // timeout.
  TcpExchange(int rank, int size, const std::string& host, int port, std::chrono::milliseconds timeout);

  // The bytes of all ranks, in order. All ranks call it alike. Throws Error when a rank is gone, or late: rank 0 says
  // who.
  std::vector<std::string> AllGather(std::string_view mine, Deadline deadline);

 private:
  void Listen(const std::string& host, int port, Deadline deadline);
  void Connect(const std::string& host, int port, Deadline deadline);
  std::string Absent() const;  // "1, 3"
  void Collect(std::vector<std::string>& all, Deadline deadline);
  std::string Receive(int rank, Deadline deadline);
  void SendTo(int rank, std::string_view bytes, Deadline deadline);

  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::vector<Socket> peers_;  // of rank 0: by rank; of the others: [0] alone
};

}  // namespace weft
