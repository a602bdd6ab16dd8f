// ModelSource: the model that a command line names, and where its weights are.
//
//   weft generate runs/a/step-000100     a checkpoint
//   weft generate runs/a                 a folder of checkpoints: the newest whole one
//   weft generate configs/a.yaml         a config: the newest whole one of its checkpoint.dir, not past its
//                                        train.steps; where there is none, or the command line says so, its model.init.
//                                        A config with `run` takes the newest of the runs NAME, NAME-2, ...
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
  Config config;                         // resolved, but for model.vocab
  std::optional<Checkpoint> checkpoint;  // none: model.init
  std::vector<std::string> notes;        // for people: what was passed over, and what was taken
};

// Called by all ranks alike, with one answer on all. Axes of the mesh that the command line leaves open are as the
// config has them; where these do not make the number of ranks, axis `fill` gets them all.
// An empty `path` means the newest run, which the notes name.
enum class MeshFill { kData, kTensor };
absl::StatusOr<ModelSource> OpenSource(const std::string& path, const std::vector<std::string>& overrides,
                                       const Ranks& ranks, MeshFill fill);

// The tokenizer of its texts: that of the checkpoint, unless the command line names one.
absl::StatusOr<Tokenizer> TokenizerOf(const ModelSource& source);

}  // namespace weft
