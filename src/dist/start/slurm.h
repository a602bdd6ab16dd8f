// Slurm's variables: where the ranks of a job step that has neither MPI nor MASTER_ADDR meet.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// The first host of a host list: "node003" of "node[003-005,9],gpu1", "a1b07" of "a[1-2]b[07,9]". Throws Error naming
// the place when it is not a host list.
std::string FirstSlurmHost(std::string_view list);

// A port that all ranks of a job step agree on, and that few other steps share: 20000 to 29999, below the ports that
// systems hand out.
int SlurmPort(int64_t job, int64_t step);

}  // namespace weft
