// MemoryNeed: the bytes that a rank will ask for, by category. It is known before anything is allocated.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "weft/parallel/step/training_step.h"

namespace weft {

struct MemoryNeed {
  int64_t parameters = 0, moments = 0, copies = 0, accumulators = 0, slots = 0;  // of the State
  int64_t activations = 0, workspaces = 0;                                       // of the arena at its peak
  int64_t caches = 0;                                                            // of keys and values, for generation
  int64_t communicators = 0;  // of NCCL, and what its windows take beyond the arena
  int64_t snapshot = 0;       // of the state that a checkpoint in progress holds
  int64_t data = 0;           // tokens of text, read before all else is allocated
  // Host memory if the device is not the CPU: images of the slots, the snapshot and the data.
  int64_t staging = 0;

  // Returns the bytes that the device must have, with the name of each category. Leaves out staging. Caches,
  // communicators, the checkpoint and data appear only if they need memory.
  std::vector<std::pair<const char*, int64_t>> Categories() const;
  int64_t Total() const;
  MemoryNeed& operator+=(const MemoryNeed& other);
};

// Returns the need of a State's entries and of a plan's arena, and nothing else. `plan` is null unless the executor is
// compiled.
MemoryNeed MemoryNeedOf(const std::vector<EntryInfo>& entries, const MeshShape& mesh, const Plan* plan);
// Returns the need of a training step, including staging for slots and NCCL's communicators. `plans` are those of
// executor compiled. Other executors allocate op by op, so with null the arena is unknown and counts as 0.
MemoryNeed MemoryNeedOf(const TrainingStep& step, const StepPlans* plans, DeviceKind device);

// Returns the additional need of saving checkpoints, on the rank at `coords`.
MemoryNeed SnapshotNeedOf(const TrainingStep& step, const Coords& coords, DeviceKind device);

// Returns the need of `bytes` of tokens, which are held on the host.
MemoryNeed HeldDataNeed(int64_t bytes, DeviceKind device);

}  // namespace weft
