// Slurm: the meeting point of the ranks of a job step that has neither MPI nor MASTER_ADDR.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// Returns the first host of a host list: "node003" of "node[003-005,9],gpu1", "a1b07" of "a[1-2]b[07,9]". Throws Error
// with the position if the text is not a host list.
std::string FirstSlurmHost(std::string_view list);

// Returns a port that all ranks of a job step agree on and that few other steps share. It is from 20000 to 29999, below
// the usual ephemeral ports.
int SlurmPort(int64_t job, int64_t step);

}  // namespace weft
