// LoadedModel: a trained model and forward programs over it, on the ranks of a mesh.
//
//   LoadedModel model(config, options, {RandomPhase::kEval, EvalSums, SlotEntries(options)}, context, mesh, device);
//   absl::Status status = model.Load(source);
//   std::vector<Tensor> sums = model.Run();
#pragma once
#include <optional>

#include "weft/dist/group/mesh.h"
#include "weft/train/infer/forward.h"
#include "weft/train/infer/source.h"

namespace weft {

class LoadedModel {
 public:
  // The config must be resolved and the same on all ranks. Config, context and mesh must outlive this. All ranks must
  // construct it together. Throws Error if ranks would issue different collectives.
  LoadedModel(const Config& config, const StepOptions& options, std::vector<ForwardProgram> programs,
              const Context& context, DeviceMesh& mesh, DeviceKind device);
  LoadedModel(const Config& config, const StepOptions& options, ForwardProgram program, const Context& context,
              DeviceMesh& mesh, DeviceKind device)
      : LoadedModel(config, options, std::vector<ForwardProgram>{std::move(program)}, context, mesh, device) {}

  // Allocates memory and reads the weights. Returns the same result on all ranks: kResourceExhausted if there is too
  // little memory (nothing was allocated), or kInvalidArgument if the weights are not those of this model.
  absl::Status Load(const ModelSource& source);
  // Returns the outputs of the first program. All ranks must call it.
  std::vector<Tensor> Run() { return forward_.Run(); }

  operator BoundForward() { return {state_, options_, forward_}; }

  State& state() { return state_; }
  const StepOptions& options() const { return options_; }
  const Config& config() const { return config_; }

 private:
  absl::Status SetParameters(const ModelSource& source);

  const Config& config_;
  StepOptions options_;
  DeviceMesh& mesh_;
  ShardedModel model_;
  Runtime runtime_;
  State state_;
  Forward forward_;
};

}  // namespace weft
