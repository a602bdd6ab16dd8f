// JobSecret: what the ranks of a job know and strangers do not, where no MPI carries a key from rank 0 to the others.
#pragma once
#include <optional>
#include <string>

#include "weft/dist/net/hmac.h"
#include "weft/dist/net/refusal_log.h"
#include "weft/dist/net/tcp_socket.h"

namespace weft {

struct JobSecret {
  Key key;
  std::string note;          // what a person should know about its strength; "" for nothing
  bool is_readable = false;  // by other users: a scheduler's id
};

// Looks at the environment, in this order:
//   WEFT_SECRET                             any text
//   WEFT_SECRET_FILE                        a regular file, whose first 4096 bytes are the secret, white space at its
//                                           end left out; the note says so when other users can read it
//   SLURM_JOB_ID, PBS_JOBID, LSB_JOBID      of a scheduler; it can be read by others, and the note says so
// None when there are none of these. Throws Error when one is empty, or the file cannot be read.
std::optional<JobSecret> SecretFromEnvironment();

// Without any of these the ranks of one user on one host still have a secret: rank 0 makes a random one and hands it to
// processes of its own user, whom the kernel vouches for. It goes through a Unix socket in the abstract namespace,
// named after the port of the rendezvous, which other hosts and other network namespaces cannot reach. In a user
// namespace all users that it does not map have one id, the overflow id: no process with that id is trusted there.
class LocalSecret {
 public:
  // Of rank 0. Throws Error when the name is taken.
  explicit LocalSecret(int port);
  const Key& key() const { return key_; }
  int fd() const { return listener_.fd(); }  // readable when somebody asks
  // Answers a few of those that ask. Does not wait for more.
  void Serve();

  // Of the other ranks. None when nobody listens yet. Throws Error when another user's process does.
  static std::optional<Key> Fetch(int port, std::chrono::steady_clock::time_point deadline);

 private:
  Key key_;
  Socket listener_;
  RefusalLog log_{"rank 0"};
};

}  // namespace weft
