// ModelSource: the model that a command line names, and the location of its weights.
//
//   weft generate runs/a/step-000100     a checkpoint
//   weft generate runs/a                 a folder of checkpoints: the newest whole one
//   weft generate configs/a.yaml         a config: the newest whole one of its checkpoint.dir, not past its
//                                        train.steps. If there is none, or if the command line sets model.init, the
//                                        weights of model.init. A config with `run` takes the newest of the runs NAME,
//                                        NAME-2, ...
//   weft generate                        the run in runs/ that saved a checkpoint last
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "weft/dist/group/consensus.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/config/config.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct ModelSource {
  Config config;                         // resolved, except for model.vocab
  std::optional<Checkpoint> checkpoint;  // none: model.init
  std::vector<std::string> notes;        // for the user: which checkpoints were skipped, and which weights were taken
};

// The mesh axis that OpenSource fills: dp or tp.
enum class MeshFill { kData, kTensor };
// Opens the model that `path` and the overrides name. An empty `path` means the newest run, which the notes name. All
// ranks must call it; all get the same result.
//
// Mesh axes that the command line does not set are as in the config. If the mesh then does not have ranks.size ranks,
// these axes become 1, except for one that gets the remaining ranks: dp if the command line sets tp, tp if it sets only
// dp, and otherwise the axis of `fill`. If the command line sets both dp and tp, no axis gets them.
absl::StatusOr<ModelSource> OpenSource(const std::string& path, const std::vector<std::string>& overrides,
                                       const Ranks& ranks, MeshFill fill);

// Returns the tokenizer of the model's texts: that of the checkpoint. If the checkpoint has none, it is the one that
// the command line names, and without a checkpoint the config's data.tokenizer. Returns kInvalidArgument if the
// tokenizer is unknown, cannot be opened, or is not the checkpoint's.
absl::StatusOr<Tokenizer> TokenizerOf(const ModelSource& source);

}  // namespace weft
