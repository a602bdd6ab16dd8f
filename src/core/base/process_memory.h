// How much more memory this process may map, when a limit of setrlimit is set.
#pragma once
#include <exception>
#include <string>

#include "weft/core/base/memory.h"

namespace weft {

struct ProcessMemory {
  std::string limit;  // "RLIMIT_AS (ulimit -v)": the limit that leaves the least; empty when there is none
  Memory memory;      // under that limit; total 0 when there is none
};
// RLIMIT_AS bounds the address space, RLIMIT_DATA the private writable part of it. `root`: where /proc is.
ProcessMemory MemoryOfProcess(const std::string& root = "");

// The same in words: "process 12 of host h under RLIMIT_AS (ulimit -v)"; empty when there is no limit.
std::string PlaceOf(const ProcessMemory& process);

// What an allocation of host memory that failed lacked: memory of the process's limit or, when that leaves as much as
// the host has, memory of the host. `asked`: 0 when nobody knows.
Shortage HostShortage(size_t asked, std::string what = MemoryUse::Current());

// "; process 12 of host h under RLIMIT_AS (ulimit -v) has 5.1 MiB free of 100.0 MiB", for a failure that may have its
// cause there; empty when there is no limit.
std::string LimitText();

// The message of an exception, with the numbers when it is std::bad_alloc or there is a limit: what cannot get memory
// (a thread, a library) seldom says so.
std::string TextOf(const std::exception& exception);

}  // namespace weft
