// NextToken: computes the logits of the tokens that follow the texts of a batch, on any mesh.
//
//   StepOptions options = NextTokenOptions(config, device);
//   LoadedModel model(config, options, NextTokenPrograms(options), context, mesh, device);
//   absl::Status status = model.Load(source);
//   NextToken next(model);
//   std::span<const double> logits = next.Logits(tokens);     // [V]
//
// Ranks along tp share the work of a row. A batch of several rows is sharded over the ranks along dp. With one row all
// ranks along dp do the same work, so that no bit depends on dp.
//
// The State caches the keys and values of the tokens that a row has seen, so a text that grows by a token costs one
// token. Programs of a few sizes read the new tokens of all rows: one size is one token, and longer ones read prompts.
// Positions after the last token of a row have no effect, because attention is causal and because later tokens replace
// their keys. A text of more than model.context tokens loses its first token with each new one. All other tokens move,
// so their keys change, and the whole context is read again.
//
// A text of a model with sources (objective pairs) is a row of PairLayout that has not ended yet: a source with its
// padding, and the target so far. One more program reads the sources of all rows, when one of them is new. It keeps the
// keys and values that the decoder needs of them, and the programs above read only tokens of targets. Such a text
// cannot be longer than the context.
//
// Without the cache one program reads a whole context for each token.
#pragma once
#include <span>
#include <vector>

#include "weft/train/infer/loaded_model.h"

namespace weft {

// Returns options for `rows` texts of a whole context. On a CPU the compute type is at least f32, unless the command
// line sets it. The rounding of bf16 and f16 differs so much between meshes that texts would differ too.
StepOptions NextTokenOptions(const Config& config, DeviceKind device, int64_t rows = 1);
// `cache`: whether keys and values are kept.
std::vector<ForwardProgram> NextTokenPrograms(const StepOptions& options, bool cache = true);

class NextToken {
 public:
  using Tokens = std::span<const int32_t>;
  // The model must be loaded, have NextTokenPrograms, and outlive this. Several objects may use one model in turn.
  explicit NextToken(const BoundForward& model) : model_(model) {}

  // Computes the logits [V] of the token after each text, as computed, converted to f64. There may be at most
  // options.rows texts, and one of them must not be empty. Texts that are empty have no logits. Only the last
  // model.context tokens of a text count; a text with a source must not have more. All ranks must call it; all get the
  // same logits. The result is valid until the next call.
  const std::vector<std::span<const double>>& Logits(std::span<const Tokens> texts);
  std::span<const double> Logits(Tokens text) { return Logits(std::span(&text, 1))[0]; }
  // Returns how many tokens the programs have read, with their padding, in all calls. Sources are not counted.
  int64_t tokens_read() const { return tokens_read_; }
  // Returns how many times the sources of the rows have been read.
  int64_t sources_read() const { return sources_read_; }

 private:
  // The next tokens of a row.
  struct Part {
    int64_t start = 0, count = 0;
  };
  void CheckTexts(std::span<const Tokens> texts) const;
  void ReadSources(std::span<const Tokens> texts);
  size_t ChooseProgram(int64_t tokens) const;
  int64_t Kept(size_t row, Tokens text) const;  // tokens of a text whose keys and values are of use
  int64_t Needed(size_t row, Tokens text) const;
  Part PartOf(size_t row, Tokens text, int64_t size) const;
  bool Read(std::span<const Tokens> texts);
  void Fill(int64_t size, std::span<const Tokens> texts, std::span<const Part> parts);
  template <class T>
  void WriteSlot(const std::string& slot, const std::vector<T>& values);  // without waiting for the copy

  BoundForward model_;
  std::vector<std::span<const double>> logits_;  // per row, in results_
  std::vector<Tensor> results_;                  // of the runs of the last call
  int64_t tokens_read_ = 0, sources_read_ = 0;
};

}  // namespace weft
