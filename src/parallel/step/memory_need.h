// MemoryNeed: the bytes that a rank asks for, by category, known before anything is allocated.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "weft/parallel/step/training_step.h"

namespace weft {

struct MemoryNeed {
  int64_t parameters = 0, moments = 0, copies = 0, accumulators = 0, slots = 0;  // of the State
  int64_t activations = 0, workspaces = 0;                                       // of the arena, when it is fullest
  int64_t communicators = 0;                                                     // of NCCL
  int64_t snapshot = 0;                                                          // of what a checkpoint holds
  int64_t data = 0;                                                              // tokens of text, read before the rest
  int64_t staging = 0;  // on the host, where the device is another: images of the slots, the snapshot, the data

  // All but the staging, each with its name: what the device must have. Communicators, a snapshot and data only where
  // there are any.
  std::vector<std::pair<const char*, int64_t>> Categories() const;
  int64_t Total() const;
  MemoryNeed& operator+=(const MemoryNeed& other);
};

// Of the entries of a State and, with executor compiled, of a plan's arena; nothing else.
MemoryNeed MemoryNeedOf(const std::vector<EntryInfo>& entries, const MeshShape& mesh, const Plan* plan);
// `plans`: of executor compiled. Null: the others allocate op by op, and only the State is known.
MemoryNeed MemoryNeedOf(const TrainingStep& step, const StepPlans* plans, DeviceKind device);

// What saving takes on the rank at `coords`, on top of it.
MemoryNeed SnapshotNeedOf(const TrainingStep& step, const Coords& coords, DeviceKind device);

// `bytes` of tokens, which are held on the host.
MemoryNeed HeldDataNeed(int64_t bytes, DeviceKind device);

}  // namespace weft
