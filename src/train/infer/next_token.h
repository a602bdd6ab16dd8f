// NextToken: the logits of the token that follows a text, on any mesh.
//
//   LoadedModel model(config, NextTokenOptions(config, device), NextTokenProgram(options), context, mesh, device);
//   NextToken next(model);
//   std::span<const double> logits = next.Logits(tokens);     // [V]
//
// Ranks along tp share the work; those along dp do the same, so that no bit depends on dp. The window is always a whole
// context, the tokens at its left: one program serves texts of all lengths, and what stands behind the last token
// changes nothing, as attention looks back only. There is no cache of keys and values yet.
#pragma once
#include <span>
#include <vector>

#include "weft/train/infer/loaded_model.h"

namespace weft {

// One row of a whole context. Computes in f32 at least on a CPU, unless the command line names a type: the roundings of
// bf16 and f16 differ between meshes by so much that texts would, too.
StepOptions NextTokenOptions(const Config& config, DeviceKind device);
ForwardProgram NextTokenProgram(const StepOptions& options);

class NextToken {
 public:
  // The model is loaded, has NextTokenProgram, and outlives this.
  explicit NextToken(const BoundForward& model) : model_(model) {}
  // What follows `tokens`, which are not none, and of which the last model.context count; as computed, in a type that
  // holds all others. Called by all ranks alike, and the same on all. Valid until the next call.
  std::span<const double> Logits(std::span<const int32_t> tokens);

 private:
  void Write(const char* slot, std::span<const int32_t> values);

  BoundForward model_;
  std::vector<int32_t> window_;
  Tensor logits_;
};

}  // namespace weft
