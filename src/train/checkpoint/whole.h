// Whole checkpoints: looked for and verified by all ranks together, a share each. All these are called by all ranks
// alike, with one answer on all.
#pragma once
#include <limits>
#include <optional>

#include "weft/dist/group/consensus.h"
#include "weft/train/checkpoint/checkpoint.h"

namespace weft {

// Opens a checkpoint and verifies all of it.
absl::StatusOr<Checkpoint> OpenWhole(const std::string& folder, const Ranks& ranks);

struct NewestWhole {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> broken;  // why newer ones were passed over
  std::string later;                // a note where one of a lower step was saved later; "": none

  // For people, a line each: of those passed over alone, and all.
  std::vector<std::string> Faults() const;
  std::vector<std::string> Notes() const;
};
// The checkpoint of the highest step of `dir` that is whole, among those of steps up to `last`.
NewestWhole FindNewestWhole(const std::string& dir, const Ranks& ranks,
                            int64_t last = std::numeric_limits<int64_t>::max());
// The answer where `dir` holds broken ones alone.
absl::Status BrokenAlone(const std::string& dir, const NewestWhole& newest);

// A checkpoint that a command line names.
struct NamedCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> notes;  // as NewestWhole's
};
// `path` is a checkpoint's folder, which is to be whole, or one that holds some, of which the newest whole one is
// taken.
absl::StatusOr<NamedCheckpoint> OpenNamed(const std::string& path, const Ranks& ranks);

}  // namespace weft
