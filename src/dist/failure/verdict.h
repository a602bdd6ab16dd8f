// Verdict: judges which rank made a job fail, only from the reports of all ranks.
//
// The first of these rules that finds a rank decides:
// - a rank that died
// - a rank that was suspended
// - two ranks that do not reach each other although others reach both
// - a rank that fell silent
// - a rank that made a different call from the others under the same number
// - a rank that others wait for and that waits for nobody
// - if ranks wait for each other in a circle, a rank whose next call is not that of most ranks
// - a rank that others wait for in an exchange of the bootstrap
// - the rank whose call failed before all others
//
// If only two ranks made different calls, the one that breaks its own earlier pattern is at fault.
#pragma once
#include <string>
#include <vector>

#include "weft/dist/failure/rank_report.h"

namespace weft {

struct Verdict {
  int rank = -1;     // -1 if the reports show nothing; for two ranks, the lower one
  std::string text;  // "rank 2 (host h, pid 123) died first: all_reduce #57 on dp, ..."
};
// `reports` has one report per rank.
Verdict Judge(const std::vector<RankReport>& reports);

// "rank 2 (host h, pid 123)"
std::string Who(const std::vector<RankReport>& reports, int rank);

}  // namespace weft
