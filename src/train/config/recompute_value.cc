#include "weft/train/config/recompute_value.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/io/yaml_value.h"

namespace weft {
namespace {

std::optional<ValueFault> ReadBudget(const YamlEntry& entry, double& budget) {
  constexpr double kMost = 1'000'000;  // as device.memory
  if (entry.key != "budget")
    return ValueFault{fmt::format("{:?} is no key of train.recompute, which has budget", entry.key), &entry.value};
  if (ReadNumber(entry.value, budget) && Within({.low = 0, .high = kMost, .low_open = true}, budget))
    return std::nullopt;
  return ValueFault{
      fmt::format("expected the budget as GiB, a number > 0 and <= {}, got {}", int(kMost), Shown(entry.value)),
      &entry.value};
}

}  // namespace

std::vector<std::string> RecomputeNames() { return {"none", "selective", "full"}; }

std::optional<ValueFault> ReadRecompute(const YamlNode& node, RecomputeConfig& recompute) {
  std::vector<std::string> names = RecomputeNames();
  if (node.kind == YamlNode::kMap && !node.entries.empty()) {
    recompute.mode = RecomputeMode::kBudget;
    return ReadEntries(node, "", [&](const YamlEntry& entry) { return ReadBudget(entry, recompute.budget); });
  }
  auto name = std::find(names.begin(), names.end(), node.kind == YamlNode::kScalar ? node.text : "");
  if (name == names.end())
    return ValueFault{fmt::format("expected one of {}, or {}, got {}{}", fmt::join(names, ", "), kBudgetForm,
                                  Shown(node), node.kind == YamlNode::kScalar ? DidYouMean(node.text, names) : ""),
                      &node};
  recompute = {.mode = RecomputeMode(name - names.begin())};
  return std::nullopt;
}

std::string PrintRecompute(const RecomputeConfig& recompute) {
  if (recompute.mode == RecomputeMode::kBudget) return fmt::format("{{budget: {}}}", recompute.budget);
  return RecomputeNames()[size_t(recompute.mode)];
}

}  // namespace weft
