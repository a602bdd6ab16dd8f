// MemoryCheck: a run that cannot fit ends before anything is allocated, with one error that says what asks for how
// much.
#pragma once
#include <span>

#include "absl/status/status.h"
#include "dist/process_group.h"
#include "parallel/train/memory_need.h"

namespace weft {

struct RankMemory {
  std::string place;  // ranks of one place share its memory
  MemoryNeed need;
  Memory memory;
};
// kResourceExhausted for the first place whose ranks together need more than is free there.
absl::Status CheckMemory(std::span<const RankMemory> ranks);
// The same of all ranks of `world`; called by all alike, with one answer on all.
absl::Status CheckMemory(const MemoryNeed& need, const DeviceRuntime& device, ProcessGroup& world);

}  // namespace weft
