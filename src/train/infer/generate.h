// Generate and TextWriter: sample text from a model, token by token.
//
//   absl::StatusOr<GenerateOptions> options = TakeGenerateOptions(words);     // "prompt=Once", "tokens=50", ...
//   absl::StatusOr<std::vector<int32_t>> prompt = PromptTokens(*options, tokenizer, context);
//   Generate(model, tokenizer, *prompt, *options, [&](std::string_view text) { shown += text; });
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/train/config/options.h"
#include "weft/train/data/pairs.h"
#include "weft/train/infer/next_token.h"
#include "weft/train/infer/sampler.h"
#include "weft/train/infer/stop_filter.h"
#include "weft/train/infer/text_stream.h"

namespace weft {

struct GenerateOptions {
  std::string prompt;  // "": see PromptTokens
  int64_t tokens = 200;
  SamplerOptions sampler;
  int64_t samples = 1;  // of each prompt
  PathList stops = {};  // a text ends before the first of these strings (StopFilter); the prompt is not searched
  bool repl = false;
  PathList prompts = {};     // several prompts, instead of `prompt`
  std::string prompts_file;  // a file with more of them, one per line; "": none
  int64_t batch = 8;         // how many texts are written at the same time
  bool cache = true;         // whether keys and values of earlier tokens are kept
  // Set for a model with sources (PairsOf), no argument: the prompt is the source of the text that is written.
  std::optional<PairLayout> pairs = {};

  // Returns the prompts as options with one `prompt` each: one per text of `prompts`, or this if there are none.
  std::vector<GenerateOptions> EachPrompt() const;
  int64_t texts() const { return std::max<int64_t>(int64_t(prompts.size()), 1) * samples; }
};

// Returns the arguments of `weft generate` that are not config keys. Their values are written to `options`, except the
// seed, which is written to `seed` because sampler.seed is unsigned.
std::vector<Option> OptionsOf(GenerateOptions& options, int64_t& seed);
// Removes the arguments that are options from `words`. If an option is repeated, its last value counts, but each
// `prompt` and each `stop` adds a string. Reads the files of prompts and replaces the escapes of stop strings. One
// prompt is in `prompt`, several are in `prompts`. Errors name the argument.
absl::StatusOr<GenerateOptions> TakeGenerateOptions(std::vector<std::string>& words);
// Whether the arguments ask for a conversation. Ignores arguments that are wrong.
bool AsksForRepl(std::vector<std::string> words);
// Returns "name: value" lines, so that the ranks can compare them.
std::string ToLines(const GenerateOptions& options);

// Returns the layout of the rows of a model with sources, or nullopt for a model that continues its prompt.
std::optional<PairLayout> PairsOf(const Config& config, const Tokenizer& tokenizer);

// Returns the tokens that the text begins with: those with which the tokenizer begins every text, and those of the
// prompt. Without both, returns the tokens of a new line, or token 0 if the tokenizer has none. Returns
// kInvalidArgument if the prompt cannot be encoded, has no token, or makes more than `context` tokens. With
// options.pairs, returns the beginning of a row instead, with the prompt as its source (EncodeSource).
absl::StatusOr<std::vector<int32_t>> PromptTokens(const GenerateOptions& options, const Tokenizer& tokenizer,
                                                  int64_t context);

// Receives text as it grows, in whole characters.
using ShowText = std::function<void(std::string_view text)>;

// Writes a text in turns. All ranks must make the same calls; all write the same tokens.
//
// With options.pairs a text is written from a source. It ends at the end of text, which is not shown, and when the
// target's part of the row is full. Then a turn writes nothing until AddLine gives another source.
class TextWriter {
 public:
  // The text begins with the tokens of the prompt (PromptTokens). Texts of different samples are drawn independently of
  // each other. Model, tokenizer and options must outlive this.
  TextWriter(const BoundForward& model, const Tokenizer& tokenizer, std::vector<int32_t> prompt,
             const GenerateOptions& options, int64_t sample = 0);

  // Shows the prompt, if options has one that the text begins with.
  void ShowPrompt(const ShowText& show);
  // Adds a line to the text, for the model to continue. It begins on a new line. With options.pairs it is the source of
  // a new text, whose draws are numbered from 0. An empty line adds nothing, so that the model continues the text as it
  // is. Returns kInvalidArgument, and adds nothing, if it cannot be encoded or is too long for a source.
  absl::Status AddLine(std::string_view line);
  // Writes options.tokens tokens, or fewer if a stop string ends the turn or if `goes_on`, which is asked before each
  // token, returns false. Shows the text of these tokens up to the stop string. Draws only tokens that the tokenizer
  // has, because the model may have more. Returns the number of tokens, or an error if a logit is not finite.
  absl::StatusOr<int64_t> Write(
      const ShowText& show, const std::function<bool()>& goes_on = [] { return true; });

  // The parts of Write, for writers that take turns (WriteTogether). A turn begins, takes logits [V] of the next token
  // while it wants one, and ends.
  void BeginTurn();
  bool WantsToken() const { return written_ < options_.tokens && !filter_.stopped() && !ended_; }
  absl::Status AddToken(std::span<const double> logits, const ShowText& show);
  // Adds a token that is already chosen: for a greedy writer, the one with the largest logit that the tokenizer has.
  void AddChosen(int32_t token, const ShowText& show);
  bool greedy() const { return options_.sampler.greedy || options_.sampler.temperature == 0; }
  int64_t EndTurn(const ShowText& show);  // returns the number of tokens

  // The whole text: what stop strings cut off from the shown text is part of it.
  const std::vector<int32_t>& tokens() const { return text_; }

 private:
  std::string_view TextOf(int32_t token);
  absl::Status NewSource(std::string_view line);
  int64_t kinds() const;  // tokens from this one on are not drawn

  NextToken next_;
  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  Sampler sampler_;
  TextStream stream_;
  StopFilter filter_;  // of the turn
  std::vector<int32_t> text_;
  int64_t drawn_ = 0;        // tokens, in all turns
  int64_t written_ = 0;      // tokens of the turn
  bool begins_ = true;       // of Tokenizer::TextOf
  bool line_begins_ = true;  // whether the text is at the beginning of a line
  bool ended_ = false;       // only with options.pairs
};

// Writes a turn of several texts, each to the ShowText of the same number. All texts get their next token at the same
// time, so the model must have as many rows (NextTokenOptions). A text is the same as if it were written by itself.
// Returns the number of tokens, or an error if a logit is not finite. All ranks must call it.
absl::StatusOr<int64_t> WriteTogether(const BoundForward& model, std::span<TextWriter* const> writers,
                                      std::span<const ShowText> shows);

// Returns the tokens that follow the prompt. All ranks must call it; all get the same tokens. `show` receives the
// prompt first.
absl::StatusOr<std::vector<int32_t>> Generate(const BoundForward& model, const Tokenizer& tokenizer,
                                              const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                              const ShowText& show, int64_t sample = 0);

}  // namespace weft
