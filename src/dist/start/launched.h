// Launch: the launcher (mpirun, srun, torchrun) that started this process, by the variables that it set.
#pragma once
#include <cstdint>

namespace weft {

struct Launch {
  enum Meeting : uint8_t { kMpi, kVariables, kSlurm } meeting;  // how its ranks meet
  const char *rank, *size;                                      // its variables; PMIx by itself has none for the size
  const char* mark;                                             // the variable that tells this launcher from others
};

// Returns the launcher by which Bootstrap::FromEnvironment meets other ranks, or null. It may have made a world of one.
const Launch* FindLaunch();

inline bool IsLaunched() { return FindLaunch() != nullptr; }

// This rank and the number of ranks. A variable that is missing or is no number counts as 0.
struct LaunchedRank {
  int64_t rank, size;
};
LaunchedRank RankOf(const Launch& launch);

}  // namespace weft
