// RunClaim: the folder of a run that begins, made so that no other run can take it.
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
  // Gives config.run the name of the folder that the run writes to, and fills the keys that follow from it. With
  // checkpoint.resume: never that is the first of NAME, NAME-2, NAME-3, ... that does not exist; rank 0 makes it and
  // the other ranks learn the name. A run that resumes keeps NAME. Without config.run it does nothing. Called by all
  // ranks alike, with one answer on all: kInvalidArgument, with the key's place, when rank 0 cannot make the folder.
  static absl::StatusOr<RunClaim> Make(Config& config, const Ranks& ranks);
  // Removes the folder that Make made, if the run has left nothing in it.
  ~RunClaim();
  RunClaim(RunClaim&& other) noexcept : made_(std::exchange(other.made_, "")), note_(std::move(other.note_)) {}
  RunClaim& operator=(RunClaim&&) = delete;

  // For people: which name the run got because its own was taken. "" otherwise.
  const std::string& note() const { return note_; }

 private:
  RunClaim() = default;

  std::string made_, note_;
};

}  // namespace weft
