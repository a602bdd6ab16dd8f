// Describes for the user which backends the kernels of a step use on this device.
#pragma once
#include <string>

#include "weft/core/compile/runtime.h"
#include "weft/core/ir/graph.h"

namespace weft {

// Returns the choices of all kernels that have several backends, for example "sdpa by cudnn, sdpa_grad by flash (cudnn:
// f32 is neither bf16 nor f16)". Each choice appears once with its ops, in the order of the graph. Returns "" if no
// kernel has a choice. If kernels.deterministic has a cost, the text ends with it: "; kernels.deterministic costs about
// 2 % of the speed (rates of a Hopper GPU)". `local` is the graph of one rank.
std::string KernelChoices(const Graph& local, const Runtime& runtime);

// Returns the fraction of a step's time that deterministic gradients of attention add, from rates measured on an H200.
// Returns 0 if kernels.deterministic is off or changes nothing.
double CostOfDeterminism(const Graph& local, const Runtime& runtime);

}  // namespace weft
