// MemoryCheck: ends a run that cannot fit before it allocates anything, with one error that lists the memory needed.
#pragma once
#include <span>
#include <string>

#include "absl/status/status.h"
#include "weft/dist/group/process_group.h"
#include "weft/parallel/nn/module.h"
#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/config.h"

namespace weft {

// A rank's need of memory at a limited place: a device, or the process of a CPU rank if setrlimit limits it.
struct RankMemory {
  std::string place;  // ranks at one place share its memory
  MemoryNeed need;
  Memory memory;  // after all ranks have read their data; CheckMemory counts need.data as free
};
// Returns kResourceExhausted for the first place whose ranks together need more than is free there.
absl::Status CheckMemory(std::span<const RankMemory> ranks);
// Returns the bytes that device.memory allows per GPU, or 0 if it is not set.
size_t DeviceBytes(const Config& config);
// Returns the memory of a device as if it had at most `most` bytes. 0 means no limit.
Memory Bounded(const Memory& memory, size_t most);
// Checks device and process of all ranks of `world`. A GPU counts as having device.memory. All ranks must call it; all
// get the same result.
absl::Status CheckMemory(const MemoryNeed& need, const Config& config, const DeviceRuntime& device,
                         ProcessGroup& world);
// Returns the keys that make a run need less memory, as "; KEY=VALUE keeps no ..." each. `combines`: whether products
// of the program are joined.
std::string KeysForLess(const MemoryNeed& need, const ModelScope::Options& model, bool combines);

}  // namespace weft
