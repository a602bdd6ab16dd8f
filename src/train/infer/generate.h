// Generate: samples text from a model, token by token.
//
//   absl::StatusOr<GenerateOptions> options = TakeGenerateOptions(words);     // "prompt=Once", "tokens=50", ...
//   absl::StatusOr<std::vector<int32_t>> prompt = PromptTokens(*options, tokenizer, context);
//   Generate(model, tokenizer, *prompt, *options, [&](std::string_view text) { shown += text; });
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "weft/train/config/options.h"
#include "weft/train/infer/next_token.h"
#include "weft/train/infer/sampler.h"

namespace weft {

struct GenerateOptions {
  std::string prompt;  // "": see PromptTokens
  int64_t tokens = 200;
  SamplerOptions sampler;
};

// Returns the arguments of `weft generate` that are not config keys. Their values are written to `options`, except the
// seed, which is written to `seed` because sampler.seed is unsigned.
std::vector<Option> OptionsOf(GenerateOptions& options, int64_t& seed);
// Removes the arguments that are options from `words`. If an option is repeated, its last value counts. Errors name the
// argument.
absl::StatusOr<GenerateOptions> TakeGenerateOptions(std::vector<std::string>& words);
// Returns "name: value" lines, so that the ranks can compare them.
std::string ToLines(const GenerateOptions& options);

// Returns the tokens that the text begins with: those with which the tokenizer begins every text, and those of the
// prompt. Without both, returns the tokens of a new line, or token 0 if the tokenizer has none. Returns
// kInvalidArgument if the prompt cannot be encoded, has no token, or makes more than `context` tokens.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const GenerateOptions& options, const Tokenizer& tokenizer,
                                                  int64_t context);

// Returns the tokens that follow the prompt. All ranks must call it; all get the same tokens. `show` receives the text
// as it grows, the prompt first, in whole characters. Draws only tokens that the tokenizer has, because the model may
// have more. Returns an error if a logit is not finite.
absl::StatusOr<std::vector<int32_t>> Generate(const BoundForward& model, const Tokenizer& tokenizer,
                                              const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                              const std::function<void(std::string_view)>& show);

}  // namespace weft
