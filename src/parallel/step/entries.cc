#include "weft/parallel/step/entries.h"

namespace weft {
namespace entry {
std::string Accumulator(const std::string& p) { return "acc." + p; }
}  // namespace entry

bool IsSaved(EntryKind kind) {
  return kind == EntryKind::kParameter || kind == EntryKind::kMoment || kind == EntryKind::kLossScale;
}

const char* Name(EntryKind kind) {
  constexpr const char* kNames[] = {"parameters", "moments", "slots", "copies", "accumulators", "caches", "slots"};
  return kNames[size_t(kind)];
}

void AddEntries(State& state, const std::vector<EntryInfo>& entries) {
  std::vector<State::NewEntry> slots;
  for (const EntryInfo& e : entries) {
    MemoryUse use(Name(e.kind));
    if (e.kind == EntryKind::kSlot)
      slots.push_back({e.name, e.dtype, e.shape, e.sharding});
    else
      state.Add(e.name, e.dtype, e.shape, e.sharding, IsSaved(e.kind));
  }
  MemoryUse use(Name(EntryKind::kSlot));
  state.AddTogether(slots);
}

}  // namespace weft
