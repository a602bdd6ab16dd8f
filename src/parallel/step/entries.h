// Entries: the State entries of a run, on whichever rank. Memory is planned and allocated by this one list.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/step/state.h"

namespace weft {

// Names of the State entries that are not parameters.
namespace entry {
inline constexpr const char *kTokens = "slot.tokens", *kTargets = "slot.targets", *kLr = "slot.lr",
                            *kStep = "slot.step", *kFirstRow = "slot.first_row", *kUpdates = "slot.updates",
                            *kLossSum = "acc.loss_sum", *kCount = "acc.count";
std::string Accumulator(const std::string& parameter);
}  // namespace entry

enum class EntryKind : uint8_t { kParameter, kMoment, kLossScale, kCopy, kAccumulator, kSlot };
bool IsSaved(EntryKind kind);      // part of a checkpoint
const char* Name(EntryKind kind);  // as memory is told by: "parameters"; the loss scale counts as a slot

struct EntryInfo {
  std::string name;
  EntryKind kind;
  DType dtype;
  Shape shape;  // global
  Sharding sharding;
};

// Adds entries to the state, as zeros; slots side by side.
void AddEntries(State& state, const std::vector<EntryInfo>& entries);

}  // namespace weft
