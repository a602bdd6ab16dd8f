// oneDNN's settings on this processor.
#pragma once
#include <oneapi/dnnl/dnnl_types.h>

#include <string>

namespace weft::cpu {

std::string OneDnnVersion();  // for example "2.6.3"

// Returns whether oneDNN may use the instruction set here. Depends only on the machine and on ONEDNN_MAX_CPU_ISA or
// DNNL_MAX_CPU_ISA.
bool OneDnnHas(dnnl_cpu_isa_t isa);

// From now on oneDNN computes on the calling thread. Otherwise it would start a team of OpenMP threads for each of
// Weft's threads.
void KeepOneDnnOnThisThread();

}  // namespace weft::cpu
