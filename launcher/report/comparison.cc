#include "launcher/report/comparison.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "launcher/report/html.h"
#include "launcher/report/page.h"
#include "launcher/report/run_summary.h"
#include "weft/train/io/yaml_node.h"

namespace weft {
namespace {

constexpr const char* kNotSet = "(not set)";

using Keys = std::vector<std::pair<std::string, std::string>>;  // keys and values, in the order of the config

// Returns a value as one line: "[a, {path: b}]".
std::string ValueText(const YamlNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case YamlNode::kNull:
      return "null";
    case YamlNode::kScalar:
      return node.text;
    case YamlNode::kList:
      for (const YamlNode& item : node.items) parts.push_back(ValueText(item));
      return "[" + absl::StrJoin(parts, ", ") + "]";
    case YamlNode::kMap:
      break;
  }
  for (const YamlEntry& entry : node.entries) parts.push_back(entry.key + ": " + ValueText(entry.value));
  return "{" + absl::StrJoin(parts, ", ") + "}";
}

void AddKeys(const std::string& prefix, const YamlNode& node, Keys& keys) {
  for (const YamlEntry& entry : node.entries) {
    if (entry.value.kind == YamlNode::kMap)
      AddKeys(prefix + entry.key + ".", entry.value, keys);
    else
      keys.emplace_back(prefix + entry.key, ValueText(entry.value));
  }
}

absl::StatusOr<Keys> KeysOf(const ReportedRun& run) {
  absl::StatusOr<YamlNode> node = ParseYaml(run.config, "the config of " + run.log);
  if (!node.ok()) return node.status();
  Keys keys;
  AddKeys("", *node, keys);
  return keys;
}

// Returns the rows of all summaries, with one column per run. Includes each row that any run has.
std::string SummaryTable(std::span<const ReportedRun> runs) {
  std::vector<std::string> head{""};
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < runs.size(); i++) {
    head.push_back(runs[i].name);
    for (const SummaryRow& row : SummaryOf(runs[i].history)) {
      auto named = [&](const auto& cells) { return cells[0] == row.name; };
      auto found = std::find_if(rows.begin(), rows.end(), named);
      if (found == rows.end()) {
        found = rows.insert(rows.end(), std::vector<std::string>(runs.size() + 1));
        (*found)[0] = row.name;
      }
      (*found)[i + 1] = row.value;
    }
  }
  return Table(head, rows);
}

std::string DifferenceTable(std::span<const ReportedRun> runs, const std::vector<DifferentKey>& keys) {
  if (keys.empty()) return "<h2>Configs</h2>\n<p>The configs are the same.</p>\n";
  std::vector<std::string> head{"key"};
  for (const ReportedRun& run : runs) head.push_back(run.name);
  std::vector<std::vector<std::string>> rows;
  for (const DifferentKey& key : keys) {
    rows.push_back({key.key});
    rows.back().insert(rows.back().end(), key.values.begin(), key.values.end());
  }
  return "<h2>Keys that differ</h2>\n" + Table(head, rows);
}

std::string Legend(std::span<const ReportedRun> runs) {
  std::string html = "<p class=\"legend\">";
  for (size_t i = 0; i < runs.size(); i++)
    html += fmt::format("{}<b class=\"c{}\">{}</b>", i ? " &middot; " : "", i, EscapeHtml(runs[i].name));
  return html + "</p>\n";
}

const std::string* ValueOf(const std::vector<DifferentKey>& keys, const std::string& key, size_t run) {
  auto found = std::find_if(keys.begin(), keys.end(), [&](const DifferentKey& k) { return k.key == key; });
  return found == keys.end() ? nullptr : &found->values[run];
}

absl::Status CheckObjectives(std::span<const ReportedRun> runs, const std::vector<DifferentKey>& keys) {
  auto objective = [&](size_t run) -> std::string {
    const std::string* value = ValueOf(keys, "train.objective", run);
    return !value || *value == kNotSet ? "next" : *value;
  };
  for (size_t i = 1; i < runs.size(); i++)
    if (objective(i) != objective(0))
      return absl::InvalidArgumentError(
          fmt::format("{}: expected a run with train.objective {}, as {} has it, got {}: their losses are of different "
                      "kinds; draw each run by itself",
                      runs[i].log, objective(0), runs[0].log, objective(i)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<DifferentKey>> DifferentKeys(std::span<const ReportedRun> runs) {
  std::vector<DifferentKey> all;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < runs.size(); i++) {
    absl::StatusOr<Keys> keys = KeysOf(runs[i]);
    if (!keys.ok()) return keys.status();
    for (const auto& [key, value] : *keys) {
      auto [place, is_new] = places.try_emplace(key, all.size());
      if (is_new) all.push_back({key, std::vector<std::string>(runs.size(), kNotSet)});
      all[place->second].values[i] = value;
    }
  }
  std::erase_if(all, [](const DifferentKey& key) {
    return std::all_of(key.values.begin(), key.values.end(), [&](const std::string& v) { return v == key.values[0]; });
  });
  return all;
}

absl::Status CheckComparable(std::span<const ReportedRun> runs) {
  absl::StatusOr<std::vector<DifferentKey>> keys = DifferentKeys(runs);
  return keys.ok() ? CheckObjectives(runs, *keys) : keys.status();
}

absl::StatusOr<std::string> HtmlComparison(std::span<const ReportedRun> runs) {
  absl::StatusOr<std::vector<DifferentKey>> keys = DifferentKeys(runs);
  if (!keys.ok()) return keys.status();
  if (absl::Status s = CheckObjectives(runs, *keys); !s.ok()) return s;
  std::vector<Chart> charts = ChartsOf(runs);
  std::string body = Legend(runs) + Figure(charts[0]);
  if (ValueOf(*keys, "data.tokenizer", 0))
    body += "<p>The runs have different tokenizers: their losses per token do not compare, bits per byte do.</p>\n";
  body += SummaryTable(runs) + DifferenceTable(runs, *keys);
  for (size_t i = 1; i < charts.size(); i++) body += Figure(charts[i]);
  std::vector<std::string> names;
  for (const ReportedRun& run : runs) names.push_back(run.name);
  return Page(absl::StrJoin(names, ", "), body);
}

}  // namespace weft
