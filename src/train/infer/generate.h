// Generate: text from a model, token by token.
//
//   absl::StatusOr<GenerateOptions> options = TakeGenerateOptions(words);     // "prompt=Once", "tokens=50", ...
//   absl::StatusOr<std::vector<int32_t>> prompt = PromptTokens(*options, tokenizer, context);
//   Generate(model, tokenizer, *prompt, *options, [](std::string_view text) { shown += text; });
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "weft/train/config/options.h"
#include "weft/train/infer/next_token.h"
#include "weft/train/infer/sampler.h"

namespace weft {

struct GenerateOptions {
  std::string prompt;  // "": a new line
  int64_t tokens = 200;
  SamplerOptions sampler;
};

// The words of weft generate that are no keys of the config. `seed` gets what sampler.seed has without a sign.
std::vector<Option> OptionsOf(GenerateOptions& options, int64_t& seed);
// Takes the words that are options out of `words`; the last of a name counts. Errors carry the place of the word.
absl::StatusOr<GenerateOptions> TakeGenerateOptions(std::vector<std::string>& words);
// "name: value" lines, for the ranks to compare.
std::string ToLines(const GenerateOptions& options);

// The tokens that the text begins with: those that every text of the tokenizer begins with, and those of the prompt.
// Without either, those of a new line, or the tokenizer's first kind where it has none. At least one, and at most
// `context`.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const GenerateOptions& options, const Tokenizer& tokenizer,
                                                  int64_t context);

// Called by all ranks alike, and the same on all: the tokens behind the prompt. `show` gets the text as it grows, the
// prompt first, in whole characters. Only tokens that the tokenizer has are drawn, though the model may have more.
absl::StatusOr<std::vector<int32_t>> Generate(const BoundForward& model, const Tokenizer& tokenizer,
                                              const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                              const std::function<void(std::string_view)>& show);

}  // namespace weft
