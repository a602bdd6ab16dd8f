// Which checkpoint a run goes on from: what checkpoint.resume says, checked by all ranks together, a share each.
#pragma once
#include <optional>

#include "weft/dist/group/process_group.h"
#include "weft/parallel/nn/layers/transformer.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/config/config.h"

namespace weft {

struct Resumed {
  std::optional<Checkpoint> checkpoint;  // none: the run starts afresh
  std::vector<std::string> lines;        // for people: what was looked at and passed over
  std::vector<std::string> notes;        // and what may not be meant: keys of data and schedule that changed
};

// kInvalidArgument, with the place of the key, where a key of the model is another than the checkpoint's. A vocabulary
// that is not known yet is not compared.
absl::Status CheckModel(const Config& config, const Checkpoint& checkpoint);

// Called by all ranks alike, with one answer on all. auto takes the newest checkpoint of checkpoint.dir that is whole.
// kInvalidArgument, with the place of the key: there is none such, or it is of another model.
absl::StatusOr<Resumed> FindResumed(const Config& config, ProcessGroup& world);

}  // namespace weft
