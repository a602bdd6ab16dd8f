// Faults for tests: what happens to a process or a file system at the worst moment, asked for by WEFT_FAULT.
//
//   WEFT_FAULT=rename:kill         the first rename of a checkpoint never happens: the process is killed there
//   WEFT_FAULT=write:enospc:3      the third write fails as on a full disk
//
// Actions: kill, or an error that the call then has: enospc, eio, erofs, eacces.
#pragma once

namespace weft {

// The error that the call at `point` is to have, 0 for none; or the process ends here. Thread-safe.
int FaultAt(const char* point);

}  // namespace weft
