// Generate and TextWriter: sample text from a model, token by token.
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
#include "weft/train/infer/text_stream.h"

namespace weft {

struct GenerateOptions {
  std::string prompt;  // "": see PromptTokens
  int64_t tokens = 200;
  SamplerOptions sampler;
  int64_t samples = 1;
  PathList stops = {};  // a text ends before the first of these strings (StopFilter); the prompt is not searched
  bool repl = false;
};

// Returns the arguments of `weft generate` that are not config keys. Their values are written to `options`, except the
// seed, which is written to `seed` because sampler.seed is unsigned.
std::vector<Option> OptionsOf(GenerateOptions& options, int64_t& seed);
// Removes the arguments that are options from `words`. If an option is repeated, its last value counts, but each `stop`
// adds a string. Reads the file of a prompt "FILE:PATH" and replaces the escapes of stop strings. Errors name the
// argument.
absl::StatusOr<GenerateOptions> TakeGenerateOptions(std::vector<std::string>& words);
// Whether the arguments ask for a conversation. Ignores arguments that are wrong.
bool AsksForRepl(std::vector<std::string> words);
// Returns "name: value" lines, so that the ranks can compare them.
std::string ToLines(const GenerateOptions& options);

// Returns the tokens that the text begins with: those with which the tokenizer begins every text, and those of the
// prompt. Without both, returns the tokens of a new line, or token 0 if the tokenizer has none. Returns
// kInvalidArgument if the prompt cannot be encoded, has no token, or makes more than `context` tokens.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const GenerateOptions& options, const Tokenizer& tokenizer,
                                                  int64_t context);

// Receives text as it grows, in whole characters.
using ShowText = std::function<void(std::string_view text)>;

// Writes a text in turns. All ranks must make the same calls; all write the same tokens.
class TextWriter {
 public:
  // The text begins with the tokens of the prompt (PromptTokens). Texts of different samples are drawn independently of
  // each other. Model, tokenizer and options must outlive this.
  TextWriter(const BoundForward& model, const Tokenizer& tokenizer, std::vector<int32_t> prompt,
             const GenerateOptions& options, int64_t sample = 0);

  // Shows the prompt, if options has one.
  void ShowPrompt(const ShowText& show);
  // Adds a line to the text, for the model to continue. It begins on a new line. An empty line adds nothing, so that
  // the model continues the text as it is. Returns kInvalidArgument, and adds nothing, if it cannot be encoded.
  absl::Status AddLine(std::string_view line);
  // Writes options.tokens tokens, or fewer if a stop string ends the turn or if `goes_on`, which is asked before each
  // token, returns false. Shows the text of these tokens up to the stop string. Draws only tokens that the tokenizer
  // has, because the model may have more. Returns the number of tokens, or an error if a logit is not finite.
  absl::StatusOr<int64_t> Write(
      const ShowText& show, const std::function<bool()>& goes_on = [] { return true; });

  // The whole text: what stop strings cut off from the shown text is part of it.
  const std::vector<int32_t>& tokens() const { return text_; }

 private:
  absl::StatusOr<std::string_view> Next();  // adds a token and returns its text
  std::string_view TextOf(int32_t token);

  NextToken next_;
  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  Sampler sampler_;
  TextStream stream_;
  std::vector<int32_t> text_;
  int64_t drawn_ = 0;        // tokens, in all turns
  bool begins_ = true;       // of Tokenizer::TextOf
  bool line_begins_ = true;  // whether the text is at the beginning of a line
};

// Returns the tokens that follow the prompt. All ranks must call it; all get the same tokens. `show` receives the
// prompt first.
absl::StatusOr<std::vector<int32_t>> Generate(const BoundForward& model, const Tokenizer& tokenizer,
                                              const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                              const ShowText& show, int64_t sample = 0);

}  // namespace weft
