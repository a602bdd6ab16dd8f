#include "weft/parallel/step/memory_need.h"

#include <algorithm>

#include "weft/core/base/box.h"
#include "weft/core/base/shard.h"
#include "weft/core/host/rounding.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/parallel/step/arena_windows.h"

namespace weft {
namespace {

int64_t& BytesOf(MemoryNeed& need, EntryKind kind) {
  switch (kind) {
    case EntryKind::kParameter:
      return need.parameters;
    case EntryKind::kMoment:
      return need.moments;
    case EntryKind::kCopy:
      return need.copies;
    case EntryKind::kAccumulator:
      return need.accumulators;
    case EntryKind::kCache:
      return need.caches;
    case EntryKind::kLossScale:
    case EntryKind::kSlot:
      break;
  }
  return need.slots;
}

}  // namespace

std::vector<std::pair<const char*, int64_t>> MemoryNeed::Categories() const {
  std::vector<std::pair<const char*, int64_t>> all{{Name(EntryKind::kParameter), parameters},
                                                   {Name(EntryKind::kMoment), moments},
                                                   {Name(EntryKind::kCopy), copies},
                                                   {Name(EntryKind::kAccumulator), accumulators},
                                                   {Name(EntryKind::kSlot), slots},
                                                   {"activations", activations},
                                                   {"workspaces", workspaces}};
  if (caches > 0) all.emplace_back(Name(EntryKind::kCache), caches);
  if (communicators > 0) all.emplace_back("communicators", communicators);
  if (snapshot > 0) all.emplace_back("checkpoint", snapshot);
  if (data > 0) all.emplace_back("data", data);
  return all;
}

int64_t MemoryNeed::Total() const {
  int64_t total = 0;
  for (const auto& [name, bytes] : Categories()) total += bytes;
  return total;
}

MemoryNeed& MemoryNeed::operator+=(const MemoryNeed& other) {
  for (auto bytes : {&MemoryNeed::parameters, &MemoryNeed::moments, &MemoryNeed::copies, &MemoryNeed::accumulators,
                     &MemoryNeed::caches, &MemoryNeed::slots, &MemoryNeed::activations, &MemoryNeed::workspaces,
                     &MemoryNeed::communicators, &MemoryNeed::snapshot, &MemoryNeed::data, &MemoryNeed::staging})
    this->*bytes += other.*bytes;
  return *this;
}

MemoryNeed MemoryNeedOf(const std::vector<EntryInfo>& entries, const MeshShape& mesh, const Plan* plan) {
  MemoryNeed need;
  for (const EntryInfo& e : entries) {
    int64_t size = NumElements(ChunkShape(e.shape, e.sharding, mesh)) * int64_t(SizeOf(e.dtype));
    BytesOf(need, e.kind) += e.kind == EntryKind::kSlot ? RoundUp(size, State::kTogether) : size;
  }
  if (plan) {
    need.workspaces = int64_t(plan->workspace_bytes);
    need.activations = int64_t(plan->arena_bytes) - need.workspaces;
  }
  return need;
}

MemoryNeed MemoryNeedOf(const TrainingStep& step, const StepPlans* plans, DeviceKind device) {
  const StepOptions& o = step.options();
  MemoryNeed need = MemoryNeedOf(step.Entries(), o.model.mesh, plans ? &plans->Largest() : nullptr);
  if (device == DeviceKind::kCpu) return need;
  need.staging = need.slots * SlotImages(o.micro_steps);
  need.communicators = NcclBytes(o.model.mesh);
  if (std::vector<WindowUse> uses = WindowsOf(o, plans, device); !uses.empty()) {
    auto copied = std::ranges::count(uses, WindowEngine::kCopies, &WindowUse::engine);
    size_t arena = plans->Largest().arena_bytes;
    need.communicators += copied * kNcclCopyBytes + int64_t(WindowBytes(arena, size_t(copied)) - arena);
    for (const WindowUse& use : uses)
      if (use.engine == WindowEngine::kKernels)
        need.communicators += NcclSymmetricBytes(o.model.mesh.sizes[size_t(use.axis)]);
  }
  return need;
}

MemoryNeed SnapshotNeedOf(const TrainingStep& step, const Coords& coords, DeviceKind device) {
  const MeshShape& mesh = step.options().model.mesh;
  int64_t bytes = 0;
  for (const EntryInfo& e : step.Entries())
    if (IsSaved(e.kind) && OwnedBox(e.shape, e.sharding, mesh, coords))
      bytes += NumElements(ChunkShape(e.shape, e.sharding, mesh)) * int64_t(SizeOf(e.dtype));
  MemoryNeed need;
  (device == DeviceKind::kCpu ? need.snapshot : need.staging) = bytes;
  return need;
}

MemoryNeed HeldDataNeed(int64_t bytes, DeviceKind device) {
  MemoryNeed need;
  (device == DeviceKind::kCpu ? need.data : need.staging) = bytes;
  return need;
}

}  // namespace weft
