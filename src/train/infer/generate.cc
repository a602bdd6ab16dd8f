#include "weft/train/infer/generate.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/infer/stop_filter.h"

namespace weft {

std::string ToLines(const GenerateOptions& o) {
  const SamplerOptions& s = o.sampler;
  return fmt::format("prompt: {:?}\ntokens: {}\ntemperature: {}\ntop_k: {}\ntop_p: {}\ngreedy: {}\nseed: {}\n",
                     o.prompt, o.tokens, s.temperature, s.top_k, s.top_p, s.greedy, s.seed) +
         fmt::format("samples: {}\nstop: {}\nrepl: {}\n", o.samples, o.stops, o.repl);
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

TextWriter::TextWriter(const BoundForward& model, const Tokenizer& tokenizer, std::vector<int32_t> prompt,
                       const GenerateOptions& options, int64_t sample)
    : next_(model),
      tokenizer_(tokenizer),
      options_(options),
      sampler_(options.sampler, sample),
      text_(std::move(prompt)) {
  for (int32_t token : text_) TextOf(token);
  line_begins_ = options.prompt.empty() || options.prompt.ends_with('\n');
}

void TextWriter::ShowPrompt(const ShowText& show) {
  if (!options_.prompt.empty()) show(stream_.Add(options_.prompt));
}

absl::Status TextWriter::AddLine(std::string_view line) {
  if (line.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer_.Encode((line_begins_ ? "" : "\n") + std::string(line));
  if (!tokens.ok()) return tokens.status();
  for (int32_t token : *tokens) TextOf(token);
  text_.insert(text_.end(), tokens->begin(), tokens->end());
  line_begins_ = false;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TextWriter::Write(const ShowText& show, const std::function<bool()>& goes_on) {
  StopFilter filter(options_.stops);
  int64_t count = 0;
  for (; count < options_.tokens && !filter.stopped() && goes_on(); count++) {
    absl::StatusOr<std::string_view> text = Next();
    if (!text.ok()) return text.status();
    show(stream_.Add(filter.Add(*text)));
  }
  std::string rest = stream_.Add(filter.End());
  show(rest + stream_.End());
  return count;
}

absl::StatusOr<std::string_view> TextWriter::Next() {
  std::span<const double> logits = next_.Logits(text_);  // [V]
  size_t known = std::min(logits.size(), size_t(tokenizer_.vocab()));
  absl::StatusOr<int32_t> token = sampler_.Pick(logits.first(known), drawn_);
  if (!token.ok()) return token.status();
  drawn_++;
  text_.push_back(*token);
  return TextOf(*token);
}

std::string_view TextWriter::TextOf(int32_t token) {
  std::string_view text = tokenizer_.TextOf(token, begins_);
  if (!text.empty()) line_begins_ = text.ends_with('\n');
  return text;
}

absl::StatusOr<std::vector<int32_t>> Generate(const BoundForward& model, const Tokenizer& tokenizer,
                                              const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                              const ShowText& show, int64_t sample) {
  TextWriter writer(model, tokenizer, prompt, options, sample);
  writer.ShowPrompt(show);
  absl::StatusOr<int64_t> count = writer.Write(show);
  if (!count.ok()) return count.status();
  return std::vector<int32_t>(writer.tokens().begin() + std::ptrdiff_t(prompt.size()), writer.tokens().end());
}

}  // namespace weft
