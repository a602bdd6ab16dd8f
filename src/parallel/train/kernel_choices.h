// Which of several ways the kernels of a step take on this device, in words for whoever runs it.
#pragma once
#include <string>

#include "core/compile/runtime.h"
#include "core/graph/graph.h"

namespace weft {

// "sdpa by cudnn, sdpa_grad by flash (cudnn: adds gradients in any order; ...)": the answers of the kernels that have a
// choice, each once with its ops, in the order of the graph. "": none has one. The graph is a rank's.
std::string KernelChoices(const Graph& local, const Runtime& runtime);

}  // namespace weft
