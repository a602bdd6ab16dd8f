// MemoryCheck: a run that cannot fit ends before anything is allocated, with one error that says what asks for how
// much.
#pragma once
#include <span>

#include "absl/status/status.h"
#include "weft/dist/group/process_group.h"
#include "weft/parallel/step/memory_need.h"

namespace weft {

// What a rank needs at one place that has a bound: a device or, when setrlimit bounds it, the process of a CPU rank.
struct RankMemory {
  std::string place;  // ranks of one place share its memory
  MemoryNeed need;
  Memory memory;  // after all ranks have read their data: need.data is no longer free, and is added to what is
};
// kResourceExhausted for the first place whose ranks together need more than is free there.
absl::Status CheckMemory(std::span<const RankMemory> ranks);
// Checks device and process of all ranks of `world`. Called by all alike, with one answer on all.
absl::Status CheckMemory(const MemoryNeed& need, const DeviceRuntime& device, ProcessGroup& world);

}  // namespace weft
