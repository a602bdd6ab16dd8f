// Verdict: which rank made a job fail, from what all ranks report. It is a function of the reports alone.
//
// A rank that died, or was suspended, is first: others fail because of it. Then come two ranks that do not reach each
// other although others reach both, then one that fell silent. If all ranks answer, their calls are compared: one that
// made another call than the others under the same number (of two, the one that does not repeat itself); else one that
// others wait for and that waits for nobody; else one that others wait for in an exchange of the bootstrap; else one
// whose call failed before all others.
#pragma once
#include <string>
#include <vector>

#include "weft/dist/failure/rank_report.h"

namespace weft {

struct Verdict {
  int rank = -1;     // -1: nothing in the reports tells; of two the lower one
  std::string text;  // "rank 2 (host h, pid 123) died first: all_reduce #57 on dp, ..."
};
// The reports by rank.
Verdict Judge(const std::vector<RankReport>& reports);

// "rank 2 (host h, pid 123)"
std::string Who(const std::vector<RankReport>& reports, int rank);

}  // namespace weft
