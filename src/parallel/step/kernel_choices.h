// Which of several ways the kernels of a step take on this device, in words for whoever runs it.
#pragma once
#include <string>

#include "weft/core/compile/runtime.h"
#include "weft/core/ir/graph.h"

namespace weft {

// "sdpa by cudnn, sdpa_grad by flash (cudnn: f32 is neither bf16 nor f16)": the answers of the kernels that have a
// choice, each once with its ops, in the order of the graph. "": none has one. Then what kernels.deterministic costs,
// where it costs anything: "; kernels.deterministic costs about 2 % of the speed (rates of an H200)". The graph is a
// rank's.
std::string KernelChoices(const Graph& local, const Runtime& runtime);

// The share of a step that the gradients of attention take longer because they are deterministic, from rates measured
// on an H200; 0 where the same kernels would run without that.
double CostOfDeterminism(const Graph& local, const Runtime& runtime);

}  // namespace weft
