// The tokenizer.json of Hugging Face's tokenizers, as far as it is a byte-level BPE.
#pragma once
#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// Reads the text of a tokenizer.json. Its ids are those of the tokenizers library. Unimplemented names a part that Weft
// does not have: another model, normalizer, pre-tokenizer, post-processor, or option; InvalidArgument, what is wrong.
absl::StatusOr<Tokenizer> HuggingFaceTokenizer(TokenizerFiles files);

}  // namespace weft
