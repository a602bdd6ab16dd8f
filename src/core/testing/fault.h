// Faults for tests: makes a process or a file system fail at the worst moment. WEFT_FAULT asks for one, as
// POINT:ACTION[:NTH].
//
//   WEFT_FAULT=rename:kill         the first rename of a checkpoint never happens: the process is killed there
//   WEFT_FAULT=write:enospc:3      the third write fails as on a full disk
//   WEFT_FAULT=write:enospc:3+     the third write and all later ones fail so
//   WEFT_FAULT=connect:kill:2      the process is killed before it connects to the others of its second group
//
// The actions are:
// - kill: the process is killed;
// - slow: the call takes a second longer;
// - hang: the call takes an hour longer;
// - enospc, eio, erofs, eacces, einval: the call fails with that error.
// The point "collective" has its own actions (dist/group/collective_fault.h).
#pragma once
#include <optional>
#include <string>

namespace weft {

// The fault that WEFT_FAULT asks for.
struct WantedFault {
  std::string action;
  int nth = 1;           // which time that the point is passed
  bool onwards = false;  // also each time after it
  bool operator==(const WantedFault&) const = default;
};
// Returns the fault that WEFT_FAULT asks for at `point`, or nullopt if it names another point or is not set.
std::optional<WantedFault> FaultWantedAt(const char* point);

// Returns the errno with which the call at `point` must fail, or 0. Kills the process or sleeps if that is the action.
// Thread-safe.
int FaultAt(const char* point);

}  // namespace weft
