// The parameters of a module under PyTorch's names: what state_dict() of the same torch.nn module holds, in a
// safetensors file (torch_names.h). safetensors.torch.save_file and load_file are PyTorch's side of it.
//
//   nn::Transformer model(nullptr, "", {.d_model = 64, .nhead = 4, .dim_feedforward = 256}, 2, 2);
//   State state = Init(model, AdamW(1e-3), mesh);
//   LoadTorchState(state, model, "transformer.safetensors");   // encoder.layers.0.self_attn.in_proj_weight, ...
//   SaveTorchState(state, model, "trained.safetensors");
#pragma once
#include <string>

#include "weft/parallel/program/state.h"

namespace weft {

// Sets the module's parameters from a file, or from a folder that Safetensors::Open reads, and converts their dtypes.
// Names begin with `prefix`, for example "model.". All ranks must call it, and each reads only what it holds. Throws
// Error if tensors with the prefix are missing, left over or of another shape, or if a file cannot be read.
void LoadTorchState(State& state, const Module& module, const std::string& path, const std::string& prefix = "",
                    Loc loc = Loc::current());
// Writes them to a new file, in the dtypes of the State. All ranks must call it; the first rank of the mesh writes, one
// tensor at a time. Throws Error if the file exists or cannot be written.
void SaveTorchState(State& state, const Module& module, const std::string& path, const std::string& prefix = "",
                    Loc loc = Loc::current());

}  // namespace weft
