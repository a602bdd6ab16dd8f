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
#include <cstdint>
#include <span>
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

// Returns a call in which a rank waits for `rank`, which will make no more calls: "all_reduce #57 on dp, ..., which it
// has not called and rank 0 waits in". `made` has the number of calls that it has made in each group of its report.
// Returns "" if there is none.
std::string MissedBy(const std::vector<RankReport>& reports, int rank, std::span<const uint64_t> made);

// "rank 2 (host h, pid 123)"
std::string Who(const std::vector<RankReport>& reports, int rank);

}  // namespace weft
