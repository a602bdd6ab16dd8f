// Reads the tokenizer.json of Hugging Face's tokenizers library if it is a byte-level BPE.
#pragma once
#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// Reads the text of a tokenizer.json. Ids are those of the tokenizers library. Returns Unimplemented, naming the part,
// for a model, normalizer, pre-tokenizer, post-processor or option that Weft does not support. Returns InvalidArgument
// if the file is malformed.
absl::StatusOr<Tokenizer> HuggingFaceTokenizer(TokenizerFiles files);

}  // namespace weft
