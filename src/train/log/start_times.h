// StartTimes: when each phase of a run's start ended, in seconds since the process began.
//
//   StartTimes times;
//   Meet();
//   times.Note(StartPhase::kMet);
//   log.Write(StartupRecord{times.seconds()});
#pragma once
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace weft {

// The phases in the order of a run. Each has the name of its result.
enum class StartPhase : uint8_t {
  kLoaded,      // the program, its libraries and OpenBLAS are loaded
  kMet,         // the ranks have met
  kDataRead,    // config and data are read, and the ranks agree on them
  kDeviceOpen,  // the device is open
  kMeshMade,    // the groups of the mesh are made
  kGraphMade,   // the step is traced, differentiated and partitioned
  kPlanned,     // the start of the run is found, the programs are compiled, and their memory is checked
  kWeightsSet,  // the State has its initial values
  kReady,       // the executables are made and the log is open
  kStepDone,    // the first step has ended
};

struct StartPhaseRow {
  const char* name;   // in logs
  const char* spent;  // what the time since the phase before it was spent on, for reports
};
// In the order of StartPhase.
inline constexpr StartPhaseRow kStartPhases[] = {
    {"loaded", "program"},       {"met", "ranks"},           {"data_read", "data"},
    {"device_open", "device"},   {"mesh_made", "mesh"},      {"graph_made", "graph"},
    {"planned", "plan"},         {"weights_set", "weights"}, {"ready", "executables"},
    {"step_done", "first step"},
};
// By phase; nullopt if the phase was not noted.
using StartSeconds = std::array<std::optional<double>, std::size(kStartPhases)>;
static_assert(std::size(kStartPhases) == size_t(StartPhase::kStepDone) + 1, "each phase has a name");

class StartTimes {
 public:
  // The time of the dynamic loader and of everything before main counts. The time of the launcher does not, because the
  // process begins when the launcher starts it. The begin is known to a tick of the system's clock, mostly 10 ms.
  StartTimes();
  // Requires that neither this phase nor a later one has been noted.
  void Note(StartPhase phase);
  const StartSeconds& seconds() const { return seconds_; }

 private:
  double begin_;  // of the process, in seconds of CLOCK_BOOTTIME
  StartSeconds seconds_;
};

// Returns when a process began, in clock ticks since the boot of the host. `stat` is the text of its /proc/PID/stat.
// Returns nullopt if the text does not contain it.
std::optional<int64_t> StartTicksIn(std::string_view stat);

}  // namespace weft
