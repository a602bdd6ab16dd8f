#include "weft/train/infer/generate.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/train/infer/text_stream.h"

namespace weft {

std::string ToLines(const GenerateOptions& o) {
  const SamplerOptions& s = o.sampler;
  return fmt::format("prompt: {:?}\ntokens: {}\ntemperature: {}\ntop_k: {}\ntop_p: {}\ngreedy: {}\nseed: {}\n",
                     o.prompt, o.tokens, s.temperature, s.top_k, s.top_p, s.greedy, s.seed);
}

absl::StatusOr<std::vector<int32_t>> PromptTokens(const GenerateOptions& options, const Tokenizer& tokenizer,
                                                  int64_t context) {
  if (options.prompt.empty()) {
    if (!tokenizer.begin().empty()) return tokenizer.begin();
    absl::StatusOr<std::vector<int32_t>> line = tokenizer.Encode("\n");
    return line.ok() && !line->empty() ? *std::move(line) : std::vector<int32_t>{0};
  }
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(options.prompt);
  if (!tokens.ok())
    return absl::InvalidArgumentError(
        fmt::format("command line: prompt: {}; write it in characters that the model knows",
                    std::string(tokens.status().message())));
  // A tokenizer that was made elsewhere may normalize the whole prompt away.
  if (tokens->empty()) return absl::InvalidArgumentError("command line: prompt: has no token; begin it with a word");
  tokens->insert(tokens->begin(), tokenizer.begin().begin(), tokenizer.begin().end());
  if (int64_t(tokens->size()) > context)
    return absl::InvalidArgumentError(fmt::format(
        "command line: prompt: expected at most model.context = {} tokens, got {}; give the last {} of them", context,
        tokens->size(), std::max<int64_t>(context - int64_t(tokenizer.begin().size()), 0)));
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> Generate(const BoundForward& model, const Tokenizer& tokenizer,
                                              const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                              const std::function<void(std::string_view)>& show) {
  NextToken next(model);
  Sampler sampler(options.sampler);
  TextStream stream;
  std::vector<int32_t> text = prompt;
  bool begins = true;
  for (int32_t token : prompt) tokenizer.TextOf(token, begins);
  if (!options.prompt.empty()) show(stream.Add(options.prompt));
  for (int64_t i = 0; i < options.tokens; i++) {
    std::span<const double> logits = next.Logits(text);  // [V]
    absl::StatusOr<int32_t> token = sampler.Pick(logits.first(std::min(logits.size(), size_t(tokenizer.vocab()))), i);
    if (!token.ok()) return token.status();
    text.push_back(*token);
    show(stream.Add(tokenizer.TextOf(*token, begins)));
  }
  show(stream.End());
  return std::vector<int32_t>(text.begin() + std::ptrdiff_t(prompt.size()), text.end());
}

}  // namespace weft
