// Measures the backends of a program's kernels before the program is planned, so that a kernel with several backends
// can choose the fastest one.
#pragma once
#include "weft/core/compile/runtime.h"

namespace weft {

// The first rank of the mesh measures its part of each call and sends all its times to the others, so that all ranks
// choose by the same times. Does nothing without the device, with kernels.deterministic, or if no kernel of the program
// has anything to measure. All ranks of the mesh must call it with the same program.
void MeasureBackends(const Graph& local, const Runtime& runtime);

}  // namespace weft
