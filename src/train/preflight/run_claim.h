// RunClaim: creates the folder of a new run, so that no other run can take it.
//
//   absl::StatusOr<RunClaim> claim = RunClaim::Make(config, ranks);
#pragma once
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/config/config.h"

namespace weft {

class RunClaim {
 public:
  // Sets config.run to the name of the folder that the run writes to, and sets the keys that depend on it. With
  // checkpoint.resume: never, the name is the first of NAME, NAME-2, NAME-3, ... that does not exist. Rank 0 creates
  // the folder and sends the name to the other ranks. A run that resumes keeps NAME. Does nothing without config.run.
  //
  // All ranks must call it; all get the same result. Returns kInvalidArgument, with the position of the key, if rank 0
  // cannot create the folder.
  static absl::StatusOr<RunClaim> Make(Config& config, const Ranks& ranks);
  // Removes the folder that Make created if it is empty.
  ~RunClaim();
  RunClaim(RunClaim&& other) noexcept : made_(std::exchange(other.made_, "")), note_(std::move(other.note_)) {}
  RunClaim& operator=(RunClaim&&) = delete;

  // A message for the user: the run's name, if its own was taken. Otherwise "".
  const std::string& note() const { return note_; }

 private:
  RunClaim() = default;

  std::string made_, note_;
};

}  // namespace weft
