#include "weft/train/infer/generate.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {

std::string ToLines(const GenerateOptions& o) {
  const SamplerOptions& s = o.sampler;
  return fmt::format("prompt: {:?}\ntokens: {}\ntemperature: {}\ntop_k: {}\ntop_p: {}\ngreedy: {}\nseed: {}\n",
                     o.prompt, o.tokens, s.temperature, s.top_k, s.top_p, s.greedy, s.seed) +
         fmt::format("samples: {}\nstop: {}\nrepl: {}\n", o.samples, o.stops, o.repl) +
         fmt::format("prompts: {}\nbatch: {}\ncache: {}\n", o.prompts, o.batch, o.cache);
}

std::vector<GenerateOptions> GenerateOptions::EachPrompt() const {
  if (prompts.empty()) return {*this};
  std::vector<GenerateOptions> each(prompts.size(), *this);
  for (size_t i = 0; i < prompts.size(); i++) {
    each[i].prompt = prompts[i];
    each[i].prompts.clear();
  }
  return each;
}

std::optional<PairLayout> PairsOf(const Config& config, const Tokenizer& tokenizer) {
  if (config.train.objective != TrainObjective::kPairs) return std::nullopt;
  return PairLayoutOf(config.model, tokenizer.vocab(), tokenizer.end_of_text());
}

namespace {

absl::StatusOr<std::vector<int32_t>> SourceTokens(const GenerateOptions& options, const Tokenizer& tokenizer) {
  absl::StatusOr<std::vector<int32_t>> tokens = EncodeSource(tokenizer, options.prompt, *options.pairs);
  if (tokens.ok()) return tokens;
  return absl::InvalidArgumentError(fmt::format(
      "command line: prompt: {}; {}", std::string(tokens.status().message()),
      absl::IsOutOfRange(tokens.status()) ? "give a shorter one" : "write it in characters that the model knows"));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> PromptTokens(const GenerateOptions& options, const Tokenizer& tokenizer,
                                                  int64_t context) {
  if (options.pairs) return SourceTokens(options, tokenizer);
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

namespace {

// Adds the next token to each text that wants one. Greedy ones need only the best token, and no logits.
absl::Status AddTokens(NextToken& next, std::span<TextWriter* const> writers, std::span<const ShowText> shows) {
  std::vector<NextToken::Tokens> texts;
  for (const TextWriter* writer : writers)
    texts.push_back(writer->WantsToken() ? NextToken::Tokens(writer->tokens()) : NextToken::Tokens());
  bool greedy = next.has_best() && std::ranges::all_of(writers, [](const TextWriter* w) { return w->greedy(); });
  if (auto best = greedy ? next.Best(texts) : std::nullopt) {
    for (size_t i = 0; i < writers.size(); i++)
      if (!texts[i].empty()) writers[i]->AddChosen((*best)[i], shows[i]);
    return absl::OkStatus();
  }
  const std::vector<std::span<const double>>& logits = next.Logits(texts);
  for (size_t i = 0; i < writers.size(); i++)
    if (!texts[i].empty())
      if (absl::Status s = writers[i]->AddToken(logits[i], shows[i]); !s.ok()) return s;
  return absl::OkStatus();
}

}  // namespace

TextWriter::TextWriter(const BoundForward& model, const Tokenizer& tokenizer, std::vector<int32_t> prompt,
                       const GenerateOptions& options, int64_t sample)
    : next_(model),
      tokenizer_(tokenizer),
      options_(options),
      sampler_(options.sampler, sample),
      filter_(options.stops),
      text_(std::move(prompt)),
      ended_(options.pairs && options.prompt.empty()) {
  if (options.pairs) return;
  for (int32_t token : text_) TextOf(token);
  line_begins_ = options.prompt.empty() || options.prompt.ends_with('\n');
}

void TextWriter::ShowPrompt(const ShowText& show) {
  if (!options_.prompt.empty() && !options_.pairs) show(stream_.Add(options_.prompt));
}

int64_t TextWriter::kinds() const { return options_.pairs ? options_.pairs->pad : tokenizer_.vocab(); }

absl::Status TextWriter::NewSource(std::string_view line) {
  absl::StatusOr<std::vector<int32_t>> tokens = EncodeSource(tokenizer_, line, *options_.pairs);
  if (!tokens.ok()) return absl::InvalidArgumentError(tokens.status().message());
  text_ = *std::move(tokens);
  drawn_ = 0;
  begins_ = true;
  ended_ = false;
  return absl::OkStatus();
}

absl::Status TextWriter::AddLine(std::string_view line) {
  if (line.empty()) return absl::OkStatus();
  if (options_.pairs) return NewSource(line);
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer_.Encode((line_begins_ ? "" : "\n") + std::string(line));
  if (!tokens.ok()) return tokens.status();
  for (int32_t token : *tokens) TextOf(token);
  text_.insert(text_.end(), tokens->begin(), tokens->end());
  line_begins_ = false;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TextWriter::Write(const ShowText& show, const std::function<bool()>& goes_on) {
  BeginTurn();
  TextWriter* self = this;
  while (WantsToken() && goes_on())
    if (absl::Status s = AddTokens(next_, {&self, 1}, {&show, 1}); !s.ok()) return s;
  return EndTurn(show);
}

void TextWriter::BeginTurn() {
  filter_ = StopFilter(options_.stops);
  written_ = 0;
}

absl::Status TextWriter::AddToken(std::span<const double> logits, const ShowText& show) {
  size_t known = std::min(logits.size(), size_t(kinds()));
  absl::StatusOr<int32_t> token = sampler_.Pick(logits.first(known), drawn_);
  if (!token.ok()) return token.status();
  AddChosen(*token, show);
  return absl::OkStatus();
}

void TextWriter::AddChosen(int32_t token, const ShowText& show) {
  drawn_++;
  written_++;
  text_.push_back(token);
  if (options_.pairs) {
    bool at_end = token == options_.pairs->end;
    ended_ = at_end || int64_t(text_.size()) > options_.pairs->context;
    if (at_end) return;
  }
  show(stream_.Add(filter_.Add(TextOf(token))));
}

int64_t TextWriter::EndTurn(const ShowText& show) {
  std::string rest = stream_.Add(filter_.End());
  show(rest + stream_.End());
  return written_;
}

std::string_view TextWriter::TextOf(int32_t token) {
  std::string_view text = tokenizer_.TextOf(token, begins_);
  if (!text.empty()) line_begins_ = text.ends_with('\n');
  return text;
}

absl::StatusOr<int64_t> WriteTogether(const BoundForward& model, std::span<TextWriter* const> writers,
                                      std::span<const ShowText> shows) {
  NextToken next(model);
  for (TextWriter* writer : writers) writer->BeginTurn();
  while (std::ranges::any_of(writers, [](const TextWriter* writer) { return writer->WantsToken(); }))
    if (absl::Status s = AddTokens(next, writers, shows); !s.ok()) return s;
  int64_t tokens = 0;
  for (size_t i = 0; i < writers.size(); i++) tokens += writers[i]->EndTurn(shows[i]);
  return tokens;
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
