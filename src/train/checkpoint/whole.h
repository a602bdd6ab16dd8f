// Finds and verifies whole checkpoints, a share per rank. All ranks must call these functions; all get the same result.
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
  std::vector<std::string> broken;  // why newer ones were skipped
  std::string later;                // a note if one of a lower step was saved later; "": none

  // Return lines for the user: Faults about skipped checkpoints only, Notes about everything.
  std::vector<std::string> Faults() const;
  std::vector<std::string> Notes() const;
};
// Returns the whole checkpoint of the highest step in `dir`, among steps up to `last`.
NewestWhole FindNewestWhole(const std::string& dir, const Ranks& ranks,
                            int64_t last = std::numeric_limits<int64_t>::max());
// Returns the error for a `dir` with only broken checkpoints.
absl::Status BrokenAlone(const std::string& dir, const NewestWhole& newest);

// A checkpoint named on the command line.
struct NamedCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> notes;  // as in NewestWhole
};
// `path` is the folder of a checkpoint, which must be whole, or a folder of checkpoints, whose newest whole one is
// taken.
absl::StatusOr<NamedCheckpoint> OpenNamed(const std::string& path, const Ranks& ranks);

}  // namespace weft
