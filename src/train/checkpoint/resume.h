// Finds the checkpoint that checkpoint.resume asks for. All ranks check it together, a share per rank.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "weft/dist/group/process_group.h"
#include "weft/parallel/nn/layers/transformer.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/config/config.h"

namespace weft {

struct Resumed {
  std::optional<Checkpoint> checkpoint;  // none: the run starts from the beginning
  std::vector<std::string> lines;        // for the user: checkpoints that were skipped
  std::vector<std::string> notes;        // for the user: changed keys of data and schedule, which may be mistakes
};

// Returns the config that the checkpoint keeps, with overrides (ParseSavedConfig).
absl::StatusOr<Config> ConfigOf(const Checkpoint& checkpoint, const std::vector<std::string>& overrides = {});

// Returns kInvalidArgument, with the position of the key, if a model key differs from the checkpoint's. A vocabulary
// that is not known yet is not compared, and if the model is `only_read`,
// neither are the lengths of texts and the keys that the checkpoint is older than.
absl::Status CheckModel(const Config& config, const Checkpoint& checkpoint, bool only_read = false);

// All ranks must call it; all get the same result. `auto` takes the newest whole checkpoint of checkpoint.dir, or none
// if the folder has no checkpoints. Returns kInvalidArgument, with the position of the key, if a named checkpoint is
// missing or broken, if checkpoint.dir has only broken ones, or if the checkpoint is of another model.
absl::StatusOr<Resumed> FindResumed(const Config& config, ProcessGroup& world);

}  // namespace weft
