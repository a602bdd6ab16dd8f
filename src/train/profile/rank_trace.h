// RankTrace: a rank's profile as trace events on tracks: modules, kernels, and the collectives of each mesh axis.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/core/base/mesh_shape.h"
#include "weft/train/profile/exposure.h"
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
  void AddCollective(const ProfiledBatch& batch, int64_t arrival, const Exposed& exposed);
  std::vector<int64_t> TakeArrivals(std::span<const ProfiledBatch> batches);
  int64_t Handed(const ProfiledBatch& batch) const;

  Options options_;
  std::span<const int64_t> last_arrivals_;
  size_t next_arrival_ = 0;
  ModuleTrack modules_;
  std::vector<Slice> module_slices_, kernels_;
  std::map<size_t, std::vector<Slice>> collectives_;  // by axis
  ProfileTotals totals_;
};

}  // namespace weft
