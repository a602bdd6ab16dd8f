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
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

#include "weft/train/infer/loaded_model.h"

namespace weft {

// Returns options for `rows` texts of a whole context. On a CPU the compute type is at least f32, unless the command
// line sets it. The rounding of bf16 and f16 differs so much between meshes that texts would differ too.
StepOptions NextTokenOptions(const Config& config, DeviceKind device, int64_t rows = 1);
// `cache`: whether keys and values are kept. `best_of`: if it is not 0, the programs also find the largest of the first
// `best_of` logits, for NextToken::Best.
std::vector<ForwardProgram> NextTokenPrograms(const StepOptions& options, bool cache = true, int64_t best_of = 0);

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
  // Returns the token of the largest of the first `best_of` logits of each text, the lowest of equal ones, and -1 for
  // texts that are empty. The logits stay on the device. Returns nullopt if some of them may not be finite; Logits
  // tells which. Requires has_best, and otherwise what Logits does.
  std::optional<std::span<const int32_t>> Best(std::span<const Tokens> texts);
  bool has_best() const { return model_.forward.traced().local().graph.outputs.size() > 1; }
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
  // Takes the outputs of a run for a row whose text has been read to its end.
  using Take = absl::FunctionRef<void(size_t row, const std::vector<Tensor>& outputs)>;
  void ReadAll(std::span<const Tokens> texts, size_t first_output, Take take);
  bool Read(std::span<const Tokens> texts, size_t first_output, Take take);
  void Fill(int64_t size, std::span<const Tokens> texts, std::span<const Part> parts);
  // Copies to this rank's chunk of a slot, without waiting for the copy.
  void WriteSlot(const std::string& slot, const void* values);

  BoundForward model_;
  std::vector<std::span<const double>> logits_;  // per row, in values_ or empty
  std::vector<std::vector<double>> values_;      // per row
  std::vector<int32_t> best_;                    // per row
  std::vector<bool> done_;                       // rows whose text has been read to its end
  BufferPtr staging_;                            // what Fill writes
  int64_t tokens_read_ = 0, sources_read_ = 0;
};

}  // namespace weft
