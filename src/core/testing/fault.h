// Faults for tests: what happens to a process or a file system at the worst moment, asked for by WEFT_FAULT, which is
// POINT:ACTION[:NTH].
//
//   WEFT_FAULT=rename:kill         the first rename of a checkpoint never happens: the process is killed there
//   WEFT_FAULT=write:enospc:3      the third write fails as on a full disk
//   WEFT_FAULT=write:enospc:3+     so does every one after it
//   WEFT_FAULT=connect:kill:2      the process is killed before it connects to the others of its second group
//
// Actions: kill; slow, a second that the call takes longer; hang, an hour of it; or an error that it has instead:
// enospc, eio, erofs, eacces, einval. The point "collective" has its own (dist/group/collective_fault.h).
#pragma once
#include <optional>
#include <string>

namespace weft {

// What WEFT_FAULT asks for at `point`, if it names that one.
struct WantedFault {
  std::string action;
  int nth = 1;           // time that the point is passed,
  bool onwards = false;  //   and each one after it
  bool operator==(const WantedFault&) const = default;
};
std::optional<WantedFault> FaultWantedAt(const char* point);

// The error that the call at `point` is to have, 0 for none; or the process ends here. Thread-safe.
int FaultAt(const char* point);

}  // namespace weft
