// JobName: what the ranks of a job have in common, and two jobs mostly have not, beside a secret and a port that they
// may share.
#pragma once
#include <cstdint>
#include <string_view>

#include "weft/dist/net/hmac.h"

namespace weft {

// Hashes under the job's secret, so that strangers learn nothing from them; 0 where a rank does not know. Each is sent.
struct JobName {
  uint64_t launcher = 0;  // the id that a launcher or scheduler has given the job
  uint64_t words = 0;     // arguments that all ranks share
  uint64_t host = 0, folder = 0;
};

// Of this process. The launcher's id is the first of these variables that is set:
//   TORCHELASTIC_RUN_ID (unless "none"), SLURM_HET_JOB_ID, SLURM_JOB_ID, PBS_JOBID, LSB_JOBID
// SLURM_STEP_ID counts too where ranks are Slurm's: with RANK set, each rank may be a step of its own.
JobName NameOfThisJob(const Key& key, std::string_view words);

// Whether two ranks may be of one job: nothing that both know differs. Folders count on one host only.
bool MayBeOneJob(const JobName& a, const JobName& b);

}  // namespace weft
