// JobSecret: the secret that the ranks of a job share, for launches in which MPI does not carry a key from rank 0.
#pragma once
#include <optional>
#include <string>

#include "weft/dist/net/hmac.h"
#include "weft/dist/net/refusal_log.h"
#include "weft/dist/net/tcp_socket.h"

namespace weft {

struct JobSecret {
  Key key;
  std::string note;          // a warning about its strength; "" for none
  bool is_readable = false;  // other users can read it: a scheduler's job id
};

// Returns the secret from the first of these that is set:
//   WEFT_SECRET                             any text
//   WEFT_SECRET_FILE                        a regular file, whose first 4096 bytes are the secret, without white space
//                                           at its end; the note warns if other users have access to it
//   SLURM_JOB_ID, PBS_JOBID, LSB_JOBID      a scheduler's job id, which others can read; the note warns of that
// Returns nullopt if none is set. Throws Error if WEFT_SECRET or the file is empty, or the file cannot be read.
std::optional<JobSecret> SecretFromEnvironment();

// The secret of ranks of one user on one host when the environment has none that others cannot read. Rank 0 makes a
// random key and hands it to processes of its own user, which the kernel identifies. The key goes through a Unix socket
// in the abstract namespace, named after the port of the rendezvous. Other hosts and other network namespaces cannot
// reach that socket. In a user namespace, all unmapped users appear as one id, the overflow id, so no process with that
// id is trusted there.
class LocalSecret {
 public:
  // For rank 0. Throws Error if it cannot listen, for example because the name is taken.
  explicit LocalSecret(int port);
  const Key& key() const { return key_; }
  int fd() const { return listener_.fd(); }  // readable when a process asks for the key
  // Answers a few of the waiting processes. Does not block.
  void Serve();

  // For the other ranks. Returns nullopt if rank 0 does not listen yet or sends no key by the deadline. Throws Error if
  // another user's process listens.
  static std::optional<Key> Fetch(int port, std::chrono::steady_clock::time_point deadline);

 private:
  Key key_;
  Socket listener_;
  RefusalLog log_{"rank 0"};
};

}  // namespace weft
