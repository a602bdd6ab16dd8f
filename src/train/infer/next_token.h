// NextToken: computes the logits of the token that follows a text, on any mesh.
//
//   StepOptions options = NextTokenOptions(config, device);
//   LoadedModel model(config, options, NextTokenProgram(options), context, mesh, device);
//   absl::Status status = model.Load(source);
//   NextToken next(model);
//   std::span<const double> logits = next.Logits(tokens);     // [V]
//
// Ranks along tp share the work. Ranks along dp all do the same work, so that no bit depends on dp. The window is
// always a whole context, with the tokens at its left, so one program serves texts of all lengths. Positions after the
// last token have no effect, because attention is causal. There is no KV cache yet.
#pragma once
#include <span>
#include <vector>

#include "weft/train/infer/loaded_model.h"

namespace weft {

// Returns options for one row of a whole context. On a CPU the compute type is at least f32, unless the command line
// sets it. The rounding of bf16 and f16 differs so much between meshes that texts would differ too.
StepOptions NextTokenOptions(const Config& config, DeviceKind device);
ForwardProgram NextTokenProgram(const StepOptions& options);

class NextToken {
 public:
  // The model must be loaded, have NextTokenProgram, and outlive this.
  explicit NextToken(const BoundForward& model) : model_(model) {}
  // Returns the logits [V] of the token after `tokens`, as computed, converted to f64. `tokens` must not be empty. Only
  // the last model.context of them count. All ranks must call it; all get the same logits. The result is valid until
  // the next call.
  std::span<const double> Logits(std::span<const int32_t> tokens);

 private:
  void Write(const char* slot, std::span<const int32_t> values);

  BoundForward model_;
  std::vector<int32_t> window_;
  Tensor logits_;
};

}  // namespace weft
