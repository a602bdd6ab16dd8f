// Export of a checkpoint's weights as Hugging Face's transformers reads them: a folder with model.safetensors,
// config.json and, of a tokenizer that it has a reader for, tokenizer.json or tokenizer.model and
// tokenizer_config.json.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/checkpoint/checkpoint.h"

namespace weft {

struct HfExport {
  int64_t tensors = 0;
  uint64_t bytes = 0;     // of the weights
  std::string tokenizer;  // the name of its file; "": none that transformers has a reader for
};
// The checkpoint is whole (whole.h). Makes the folder `out`, which must not be there: whole or not at all. One tensor
// is in memory at a time. Errors say what the checkpoint or the disk lacks.
absl::StatusOr<HfExport> ExportHf(const Checkpoint& checkpoint, const std::string& out, DType dtype);

}  // namespace weft
