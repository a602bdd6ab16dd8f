// PyTorch's names: the tensor of a torch.nn module's state_dict in which a parameter lies, and where.
//
// An nn::MultiHeadAttention keeps q, k and v apart, which PyTorch packs as in_proj_weight and in_proj_bias; with other
// widths of keys or values only the bias is packed. A weight [in, out] of an nn::Linear is stored as [out, in]. All
// else has its path as its name and lies as it is.
#pragma once
#include "weft/parallel/nn/module.h"
#include "weft/train/huggingface/hf_names.h"

namespace weft {

// Returns the location of one of the module's parameters. The name begins at the module, without the module's own path.
HfPlace PlaceInTorch(const Module& module, const Parameter& parameter);

}  // namespace weft
