// Exports a checkpoint's weights for Hugging Face's transformers: a folder with model.safetensors and config.json. If
// transformers can read the tokenizer, the folder also has tokenizer.json or tokenizer.model, and
// tokenizer_config.json. A model that writes from a source has generation_config.json too.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/checkpoint/checkpoint.h"

namespace weft {

struct HfExport {
  int64_t tensors = 0;
  uint64_t bytes = 0;                // of the weights
  std::string tokenizer;             // name of its file; "": none that transformers can read
  std::vector<std::string> notes{};  // for the user, about the checkpoint's config
};
// Requires a whole checkpoint (whole.h). Creates the folder `out`, which must not exist, either completely or not at
// all. Holds one tensor in memory at a time. Errors say what is wrong with the checkpoint or the disk.
absl::StatusOr<HfExport> ExportHf(const Checkpoint& checkpoint, const std::string& out, DType dtype);

}  // namespace weft
