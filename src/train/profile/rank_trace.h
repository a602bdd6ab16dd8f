// RankTrace: a rank's profile as trace events on three tracks: modules, kernels and collectives.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/core/base/mesh_shape.h"
#include "weft/train/profile/module_track.h"
#include "weft/train/profile/profile_totals.h"

namespace weft {

class RankTrace {
 public:
  struct Options {
    MeshShape mesh;
    int64_t first_step = 1;  // number of the first step
    int64_t origin = 0;      // start of the trace on this rank's clock
  };
  // `last_arrivals` has an entry per collective, in order, on this rank's clock (LastArrivals). A rank waits in a
  // collective until the last rank has arrived.
  RankTrace(const std::vector<RunProfile::Step>& steps, const Options& options, std::span<const int64_t> last_arrivals);

  // Returns the events as process `rank` with the name `name`.
  std::string Events(int rank, const std::string& name) const;
  const ProfileTotals& totals() const { return totals_; }  // of this rank

 private:
  void AddStep(const RunProfile::Step& step, int64_t number);
  void AddProgram(const RunProfile::ProgramRun& run, const std::string& name);
  void AddKernel(const ProfiledBatch& batch);
  void AddCollective(const ProfiledBatch& batch);
  void Cover(RunProfile::Span span);
  int64_t Handed(const ProfiledBatch& batch) const;

  Options options_;
  std::span<const int64_t> last_arrivals_;
  size_t next_arrival_ = 0;
  int64_t covered_until_ = 0;
  ModuleTrack modules_;
  std::vector<Slice> module_slices_, kernels_, collectives_;
  ProfileTotals totals_;
};

}  // namespace weft
