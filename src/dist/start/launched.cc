#include "weft/dist/start/launched.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace weft {
namespace {

// The first row whose mark is set counts. PMIx has no variable for the size, so PMI, which some launchers offer too,
// comes first.
constexpr Launch kLaunches[] = {
    {Launch::kMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
    {Launch::kMpi, "PMI_RANK", "PMI_SIZE", "PMI_RANK"},
    {Launch::kMpi, "PMIX_RANK", "SLURM_NTASKS", "PMIX_RANK"},
    {Launch::kVariables, "RANK", "WORLD_SIZE", "RANK"},
    {Launch::kVariables, "RANK", "WORLD_SIZE", "WORLD_SIZE"},
    {Launch::kSlurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_PROCID"},
};

int64_t NumberOr(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  if (!text) return otherwise;
  std::string_view view = text;
  int64_t value = 0;
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  return error == std::errc() && end == view.data() + view.size() ? value : otherwise;
}

// A batch script has a rank and the number of tasks of its job too, but is a single process. So is the shell that
// salloc starts. The script has no step id, or one of those that Slurm reserves, as the shell has.
bool InSlurmStep() {
  constexpr int64_t kReserved = 0xfffffff0;
  return std::getenv("SLURM_STEP_ID") && NumberOr("SLURM_STEP_ID", 0) < kReserved;
}

bool IsSet(const Launch& launch) {
  return std::getenv(launch.mark) && (launch.meeting != Launch::kSlurm || InSlurmStep());
}

}  // namespace

const Launch* FindLaunch() {
  const Launch* found = std::find_if(std::begin(kLaunches), std::end(kLaunches), IsSet);
  return found == std::end(kLaunches) ? nullptr : found;
}

LaunchedRank RankOf(const Launch& launch) {
  bool slurms = std::string_view(launch.size).starts_with("SLURM_");
  return {NumberOr(launch.rank, 0), slurms && !InSlurmStep() ? 0 : NumberOr(launch.size, 0)};
}

}  // namespace weft
