#include "launcher/report/scaling.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "launcher/report/chart_style.h"
#include "launcher/report/log_lines.h"
#include "launcher/report/page.h"
#include "launcher/report/picture.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// The fields of a line that the page shows.
struct BenchRecord {
  std::string kind, name, device, dtype, unit, device_name, host, version, commit;
  int64_t ranks = 0;
  std::optional<double> rate;
  std::string conditions;
};

absl::Status Unfit(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}; give a file that weft bench --json wrote", place, what));
}

absl::StatusOr<BenchRecord> ParseBenchLine(std::string_view line, const std::string& place) {
  absl::StatusOr<Json> object = ParseJsonObject(std::as_bytes(std::span(line.data(), line.size())), place);
  if (!object.ok()) return object.status();
  BenchRecord record;
  for (auto [key, text] : {std::pair{"kind", &record.kind},
                           {"case", &record.name},
                           {"device", &record.device},
                           {"dtype", &record.dtype},
                           {"unit", &record.unit},
                           {"device_name", &record.device_name},
                           {"host", &record.host},
                           {"version", &record.version},
                           {"commit", &record.commit}}) {
    auto found = object->find(key);
    if (found == object->end() || !found->is_string()) return Unfit(place, fmt::format("expected {} as a string", key));
    *text = found->get<std::string>();
  }
  auto ranks = object->find("ranks"), rate = object->find("rate");
  if (ranks == object->end() || !ranks->is_number_integer() || ranks->get<int64_t>() < 1)
    return Unfit(place, "expected ranks as an integer >= 1");
  if (rate == object->end() || !(rate->is_null() || rate->is_number()))
    return Unfit(place, "expected rate as a number or null");
  record.ranks = ranks->get<int64_t>();
  if (rate->is_number()) record.rate = rate->get<double>();
  Json conditions = {{"on", record.device_name}};
  for (const char* key : {"labels", "sizes"})
    if (object->contains(key)) conditions[key] = (*object)[key];
  record.conditions = conditions.dump();
  return record;
}

ScalingCase& CaseOf(const BenchRecord& record, std::vector<ScalingCase>& cases) {
  std::string name = fmt::format("{} {} {}", record.name, record.dtype, record.device);
  auto is_same = [&](const ScalingCase& c) { return c.kind == record.kind && c.name == name && c.unit == record.unit; };
  auto found = std::find_if(cases.begin(), cases.end(), is_same);
  if (found != cases.end()) return *found;
  return cases.emplace_back(ScalingCase{record.kind, name, record.unit, {}});
}

absl::Status AddFile(const std::string& path, Scaling& scaling) {
  absl::StatusOr<LogLines> lines = LogLines::Open(path);
  if (!lines.ok()) return lines.status();
  while (lines->Next()) {
    absl::StatusOr<BenchRecord> record = ParseBenchLine(lines->text(), lines->place());
    if (!record.ok()) return record.status();
    std::string place =
        fmt::format("{}: {}, weft {} ({})", record->host, record->device_name, record->version, record->commit);
    if (std::find(scaling.places.begin(), scaling.places.end(), place) == scaling.places.end())
      scaling.places.push_back(place);
    bool alone = record->kind == "collective" && record->ranks == 1;  // it sends nothing
    if (!record->rate || alone) continue;
    ScalingCase& one = CaseOf(*record, scaling.cases);
    auto [before, is_new] = one.conditions.emplace(record->ranks, record->conditions);
    if (before->second != record->conditions)
      return Unfit(lines->place(), fmt::format("expected one measurement of {} on {} ranks, got {} after {}", one.name,
                                               record->ranks, record->conditions, before->second));
    one.rates[record->ranks] = *record->rate;
  }
  return lines->status();
}

std::string RateTable(const std::vector<const ScalingCase*>& cases) {
  std::set<int64_t> ranks;
  for (const ScalingCase* c : cases)
    for (const auto& [n, rate] : c->rates) ranks.insert(n);
  std::vector<std::string> head{"rate of a rank"};
  for (int64_t n : ranks) head.push_back(fmt::format("{} rank{}", n, n == 1 ? "" : "s"));
  std::vector<std::vector<std::string>> rows;
  for (const ScalingCase* c : cases) {
    std::vector<std::string>& row = rows.emplace_back(1, c->name);
    double first = c->rates.begin()->second;
    for (int64_t n : ranks) {
      auto at = c->rates.find(n);
      std::string share = first > 0 && at != c->rates.end() ? fmt::format(" ({:.0f} %)", 100 * at->second / first) : "";
      row.push_back(at == c->rates.end() ? "" : fmt::format("{:.4g}{}", at->second, share));
    }
  }
  return Table(head, rows);
}

// The cases of a kind and unit, which share charts and a table.
struct Group {
  std::string kind, unit;
  std::vector<const ScalingCase*> cases;
};
std::vector<Group> GroupsOf(const Scaling& scaling) {
  std::vector<Group> groups;
  for (const ScalingCase& c : scaling.cases) {
    auto same = [&](const Group& g) { return g.kind == c.kind && g.unit == c.unit; };
    auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) at = groups.insert(at, {c.kind, c.unit, {}});
    at->cases.push_back(&c);
  }
  return groups;
}

// Returns the charts of a group, of at most kCurveColors cases each. `series` owns their values.
std::vector<Chart> ChartsOf(const Group& group, std::deque<Series>& series) {
  std::vector<Chart> charts;
  for (size_t i = 0; i < group.cases.size(); i++) {
    const ScalingCase& one = *group.cases[i];
    if (i % size_t(kCurveColors) == 0)
      charts.push_back({.title = fmt::format("{} in {}, by ranks", group.kind, group.unit),
                        .unit = group.unit + " per rank",
                        .x = "ranks",
                        .over = "ranks",
                        .from_zero = true});
    Series& values = series.emplace_back();
    for (const auto& [ranks, rate] : one.rates) values.Add(ranks, rate);
    charts.back().curves.push_back({.name = one.name, .series = &values, .color = int(i) % kCurveColors});
  }
  return charts;
}

}  // namespace

bool IsBenchFile(const std::string& path) {
  absl::StatusOr<LogLines> lines = LogLines::Open(path);
  return lines.ok() && lines->Next() && lines->text().starts_with("{\"kind\":");
}

absl::StatusOr<Scaling> ReadScaling(std::span<const std::string> paths) {
  Scaling scaling;
  for (const std::string& path : paths)
    if (absl::Status s = AddFile(path, scaling); !s.ok()) return s;
  if (scaling.cases.empty()) return Unfit(paths.front(), "expected a case with a rate, got none");
  return scaling;
}

std::string HtmlScaling(const Scaling& scaling, const std::string& name) {
  std::string body;
  for (const Group& group : GroupsOf(scaling)) {
    std::deque<Series> series;
    for (Chart& chart : ChartsOf(group, series)) body += Figure(std::move(chart));
    body += RateTable(group.cases);
  }
  std::vector<std::vector<std::string>> places;
  for (const std::string& place : scaling.places) places.push_back({place});
  return Page(name, body + Table({"measured on"}, places));
}

std::string PictureOf(const Scaling& scaling) {
  std::deque<Series> series;
  std::vector<Chart> all;
  for (const Group& group : GroupsOf(scaling))
    for (Chart& chart : ChartsOf(group, series)) all.push_back(std::move(chart));
  return Picture(std::move(all));
}

}  // namespace weft
