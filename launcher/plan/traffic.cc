#include "launcher/plan/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "weft/core/passes/block.h"

namespace weft {
namespace {

void AddTo(std::vector<TrafficRow>& rows, TrafficRow row) {
  auto same = [&](const TrafficRow& r) { return r.phase == row.phase && r.axis == row.axis && r.op == row.op; };
  auto found = std::find_if(rows.begin(), rows.end(), same);
  if (found == rows.end()) return rows.push_back(std::move(row));
  found->calls += row.calls;
  found->bytes += row.bytes;
}

TrafficRow RowOf(const CommLine& line, std::string phase) {
  return {.phase = std::move(phase),
          .axis = line.axis_name,
          .op = line.op,
          .calls = line.times,
          .bytes = line.times * line.bytes};
}

std::string ModuleOf(const std::string& scope) {
  std::vector<std::string> names = absl::StrSplit(scope, '.');
  if (names.size() > 1 && names[0] == "optimizer") names.erase(names.begin());
  auto number = std::find_if(names.begin(), names.end(), IsBlockNumber);
  size_t kept = number == names.begin() || number == names.end() ? 1 : size_t(number - names.begin()) + 1;
  names.resize(kept);
  std::string module = absl::StrJoin(names, ".");
  return module.empty() ? "model" : module;
}

// BlockOf returns "blocks." and 3 for "blocks.3", and nullopt for a module that is not a block.
struct BlockName {
  std::string_view prefix;
  int64_t number;
};
std::optional<BlockName> BlockOf(std::string_view module) {
  size_t dot = module.rfind('.');
  if (dot == module.npos || module.size() - dot > 10 || !IsBlockNumber(module.substr(dot + 1))) return std::nullopt;
  return BlockName{module.substr(0, dot + 1), std::stoll(std::string(module.substr(dot + 1)))};
}

bool Follows(const ModuleTraffic& next, const ModuleTraffic& last) {
  std::optional<BlockName> a = BlockOf(last.name), b = BlockOf(next.name);
  return a && b && a->prefix == b->prefix && b->number == a->number + 1 && next.rows == last.rows;
}

}  // namespace

std::vector<TrafficRow> TrafficByAxis(const std::vector<CommLine>& lines) {
  std::vector<TrafficRow> rows;
  for (const CommLine& line : lines) AddTo(rows, RowOf(line, ""));
  std::sort(rows.begin(), rows.end(), [](const TrafficRow& a, const TrafficRow& b) {
    return a.axis != b.axis ? a.axis < b.axis : std::string_view(Name(a.op)) < Name(b.op);
  });
  return rows;
}

std::vector<ModuleTraffic> TrafficByModule(const std::vector<CommLine>& lines) {
  std::vector<ModuleTraffic> modules;
  for (const CommLine& line : lines) {
    std::string name = ModuleOf(line.scope);
    auto named = [&](const ModuleTraffic& m) { return m.name == name; };
    auto found = std::find_if(modules.begin(), modules.end(), named);
    if (found == modules.end()) found = modules.insert(found, {name, {}});
    AddTo(found->rows, RowOf(line, Name(line.phase)));
  }
  std::vector<ModuleTraffic> folded;
  for (size_t first = 0, next; first < modules.size(); first = next) {
    for (next = first + 1; next < modules.size() && Follows(modules[next], modules[next - 1]);) next++;
    folded.push_back(std::move(modules[first]));
    if (next > first + 1)
      folded.back().name = fmt::format("{} to {}: the same", folded.back().name, modules[next - 1].name);
  }
  return folded;
}

}  // namespace weft
