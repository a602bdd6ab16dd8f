// JobName: hashes that tell jobs apart. The ranks of one job have them in common; two jobs that share a secret and a
// port usually do not.
#pragma once
#include <cstdint>
#include <string_view>

#include "weft/dist/net/hmac.h"

namespace weft {

// Hashes keyed with the job's secret, so that a stranger learns nothing from them. 0 means unknown. All are sent to
// other ranks.
struct JobName {
  uint64_t launcher = 0;  // the job id from the launcher or scheduler
  uint64_t words = 0;     // arguments that all ranks share
  uint64_t host = 0, folder = 0;
};

// Returns the name of the job that this process belongs to. The launcher's id is the first of these variables that is
// set:
//   TORCHELASTIC_RUN_ID (unless "none"), SLURM_HET_JOB_ID, SLURM_JOB_ID, PBS_JOBID, LSB_JOBID
// Without RANK, SLURM_STEP_ID is part of the id. With RANK set it is not, because each rank may be a Slurm step of its
// own.
JobName NameOfThisJob(const Key& key, std::string_view words);

// Returns whether two ranks may belong to one job: no value that both know differs. Folders are compared only on one
// host.
bool MayBeOneJob(const JobName& a, const JobName& b);

}  // namespace weft
