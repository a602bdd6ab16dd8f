// Launched: whether a launcher (mpirun, srun, torchrun) started this process.
#pragma once

namespace weft {

// Returns true if Bootstrap::FromEnvironment would meet other ranks, or a world of one that a launcher made.
bool IsLaunched();

}  // namespace weft
