// How much more memory this process may map if setrlimit limits it.
#pragma once
#include <exception>
#include <string>

#include "weft/core/base/memory.h"

namespace weft {

struct ProcessMemory {
  std::string limit;  // "RLIMIT_AS (ulimit -v)": the tightest limit; empty: no limit
  Memory memory;      // under that limit; total 0: no limit
};
// Reads the limits RLIMIT_AS, which bounds the address space, and RLIMIT_DATA, which bounds its private writable part.
// `root` is the folder that contains /proc.
ProcessMemory MemoryOfProcess(const std::string& root = "");

// Returns "process 12 of host h under RLIMIT_AS (ulimit -v)", or "" if there is no limit.
std::string PlaceOf(const ProcessMemory& process);

// Describes a failed allocation of host memory. Names the process limit if it leaves less memory than the host has, and
// the host otherwise. `asked` is in bytes; 0 means unknown.
Shortage HostShortage(size_t asked, std::string what = MemoryUse::Current());

// Returns "; process 12 of host h under RLIMIT_AS (ulimit -v) has 5.1 MiB free of 100.0 MiB", or "" if there is no
// limit. It is appended to the message of a failure that the limit may have caused.
std::string LimitText();

// Returns the message of an exception. For std::bad_alloc it is OutOfMemory's message. Other messages get LimitText()
// appended, because code that runs out of memory (starting a thread, a library) seldom reports it as such.
std::string TextOf(const std::exception& exception);

}  // namespace weft
