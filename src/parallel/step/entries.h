// Entries: the list of State entries of a run, which is the same on every rank. Memory is planned and allocated from
// this one list.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/program/state.h"

namespace weft {

// Names of the State entries that are not parameters.
namespace entry {
inline constexpr const char *kTokens = "slot.tokens", *kTargets = "slot.targets", *kLr = "slot.lr",
                            *kStep = "slot.step", *kFirstRow = "slot.first_row", *kUpdates = "slot.updates",
                            *kLossSum = "acc.loss_sum", *kCount = "acc.count";
std::string Accumulator(const std::string& parameter);
}  // namespace entry

enum class EntryKind : uint8_t { kParameter, kMoment, kLossScale, kCopy, kAccumulator, kCache, kSlot };
bool IsSaved(EntryKind kind);      // part of a checkpoint
const char* Name(EntryKind kind);  // category in memory reports, such as "parameters"; kLossScale counts as a slot

struct EntryInfo {
  std::string name;
  EntryKind kind;
  DType dtype;
  Shape shape;  // global
  Sharding sharding;
};

// Adds entries of zeros to the State. Slots share one buffer.
void AddEntries(State& state, const std::vector<EntryInfo>& entries);

}  // namespace weft
