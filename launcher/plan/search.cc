#include "launcher/plan/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "launcher/plan/plan_report.h"
#include "weft/core/base/error.h"
#include "weft/train/log/metrics.h"
#include "weft/train/preflight/regather.h"

namespace weft {
namespace {

constexpr double kGiB = double(int64_t(1) << 30);
constexpr const char* kSame = "plans the same step as a candidate before it";

class Searcher {
 public:
  Searcher(const Config& config, const SearchRequest& request, const RatesFile& rates, ConfigLoader load)
      : config_(config), request_(request), rates_(rates), load_(load) {}

  SearchResult Run() {
    for (const Candidate& candidate : Candidates(config_, request_.given, request_.devices)) {
      int64_t micro_batch = 0;
      if (Try(candidate, micro_batch) != Outcome::kTooLarge) continue;
      std::vector<Candidate> smaller = Smaller(candidate, config_, request_.given, micro_batch);
      for (size_t i = 1; i < smaller.size(); i++) Try(smaller[i], micro_batch);
    }
    // As f32, in which times that differ only by the order of their sums are equal: the simpler candidate comes first.
    std::stable_sort(result_.found.begin(), result_.found.end(),
                     [](const Found& a, const Found& b) { return float(a.time.total) < float(b.time.total); });
    return std::move(result_);
  }

 private:
  enum class Outcome : uint8_t { kFound, kLeftOut, kTooLarge };

  Outcome LeaveOut(const Candidate& candidate, const std::string& reason) {
    result_.left_out[PastedMesh(candidate)][reason]++;
    return Outcome::kLeftOut;
  }
  bool on_gpu() const { return rates_.device != DeviceKind::kCpu; }

  // A candidate for a GPU that keeps or gathers weights by its memory says how much it has.
  absl::StatusOr<Config> Load(Candidate& candidate) {
    auto with = [&] {
      Words words = request_.given;
      words.insert(words.end(), candidate.keys.begin(), candidate.keys.end());
      return load_(words);
    };
    absl::StatusOr<Config> config = with();
    bool asks = config.ok() && on_gpu() && config->parallel.fsdp == FsdpMode::kFull && config->device_memory == 0;
    if (!asks || request_.memory == 0) return config;
    candidate.keys.push_back(fmt::format("device.memory={}", request_.memory));
    return with();
  }

  Outcome Try(Candidate candidate, int64_t& micro_batch) {
    absl::StatusOr<Config> config = Load(candidate);
    if (!config.ok()) return LeaveOut(candidate, std::string(config.status().message()));
    if (result_.plans == kMostPlans)
      return LeaveOut(candidate, fmt::format("{} steps were planned before", kMostPlans));
    micro_batch = config->train.micro_batch;
    result_.plans++;
    try {
      PlannedStep planned(*config);
      return Add(candidate, *config, planned);
    } catch (const Error& e) {
      return LeaveOut(candidate, e.what());
    }
  }

  Outcome Add(const Candidate& candidate, const Config& config, PlannedStep& planned) {
    PlanReport report = MakePlanReport(config, planned);
    double reserved = on_gpu() ? double(kReservedBytes) : 0;
    if (request_.memory > 0 && double(report.memory.Total()) + reserved > request_.memory * kGiB) {
      LeaveOut(candidate, fmt::format("needs more than {} GiB", request_.memory));
      return Outcome::kTooLarge;
    }
    absl::StatusOr<StepTime> time = TimeOf(planned, rates_.rates);
    if (!time.ok()) return LeaveOut(candidate, LacksText(rates_, time.status()));
    report.time = *time;
    if (!seen_.insert({time->total, report.memory.Total()}).second) return LeaveOut(candidate, kSame);
    result_.found.push_back({candidate, *time, report.memory.Total(), TokensPerSecond(report)});
    return Outcome::kFound;
  }

  const Config& config_;
  const SearchRequest& request_;
  const RatesFile& rates_;
  ConfigLoader load_;
  SearchResult result_;
  std::set<std::pair<double, int64_t>> seen_;
};

std::string ReasonsText(const SearchResult& result) {
  std::string text;
  for (const auto& [reason, count] : result.ReasonsOfAll()) text += fmt::format("  {:>4} x {}\n", count, reason);
  return text;
}

// Returns the fastest of each mesh, or with `all` everything that was found.
std::vector<Found> RowsOf(const SearchResult& result, bool all) {
  std::vector<Found> rows;
  std::set<std::string> meshes;
  for (const Found& f : result.found)
    if (bool first = meshes.insert(PastedMesh(f.candidate)).second; first || all) rows.push_back(f);
  return rows;
}

// Returns a row for each mesh on which nothing was found, with the first line of its most frequent reason.
std::string RefusedText(const SearchResult& result, size_t blank, size_t width) {
  std::map<std::string, SearchResult::Reasons> refused = result.left_out;
  for (const Found& f : result.found) refused.erase(PastedMesh(f.candidate));
  std::string text;
  for (const auto& [mesh, reasons] : refused) {
    auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    const std::string& reason = std::ranges::max_element(reasons, fewer)->first;
    text +=
        fmt::format("{:>3}{:{}}{:{}}  refused: {}\n", "-", "", blank, mesh, width, reason.substr(0, reason.find('\n')));
  }
  return text;
}

// Returns a row for each of these, below a line of head.
std::string TableText(const SearchResult& result, bool all) {
  std::vector<Found> rows = RowsOf(result, all);
  size_t width = 4;
  for (const Found& f : rows) width = std::max(width, PastedMesh(f.candidate).size());
  for (const auto& [mesh, reasons] : result.left_out) width = std::max(width, mesh.size());
  std::string numbers =
      fmt::format("{:>10} {:>8} {:>18} {:>11}  ", "step ms", "GiB", "tokens/s per rank", "exposed ms");
  std::string text = fmt::format("{:>3}{}{:{}}  options\n", "#", numbers, "mesh", width);
  for (size_t i = 0; i < rows.size(); i++) {
    const Found& f = rows[i];
    std::string row = fmt::format("{:>3}{:>10.4g} {:>8.2f} {:>18} {:>11.3g}  {:{}}  {}", i + 1, f.time.total,
                                  double(f.bytes) / kGiB, CountText(int64_t(f.tokens_per_s)), f.time.exposed,
                                  PastedMesh(f.candidate), width, PastedOptions(f.candidate));
    text += absl::StrCat(absl::StripTrailingAsciiWhitespace(row), "\n");
  }
  return text + RefusedText(result, numbers.size(), width);
}

Words GivenAxes(const SearchRequest& request) {
  Words axes;
  for (const std::string& word : request.given)
    if (word.starts_with("mesh") || word.starts_with("--mesh")) axes.push_back(word);
  return axes;
}

}  // namespace

SearchResult::Reasons SearchResult::ReasonsOfAll() const {
  Reasons all;
  for (const auto& [mesh, reasons] : left_out)
    for (const auto& [reason, count] : reasons) all[reason] += count;
  return all;
}

absl::StatusOr<SearchResult> Search(const Config& config, const SearchRequest& request, const RatesFile& rates,
                                    ConfigLoader load) {
  if (absl::Status s = CheckDevice(rates, PlannedDevice(config)); !s.ok()) return s;
  SearchResult result = Searcher(config, request, rates, load).Run();
  if (!result.found.empty()) return result;
  if (result.left_out.empty())
    return absl::InvalidArgumentError(fmt::format(
        "--search: expected a mesh of {} devices, got none that has the given axes: {}; leave one of them out, "
        "or give other devices",
        request.devices, fmt::join(GivenAxes(request), " ")));
  return absl::InvalidArgumentError(fmt::format(
      "--search: expected a mesh of {} devices on which the step can be planned{}, got none:\n{}", request.devices,
      request.memory > 0 ? fmt::format(" in {} GiB", request.memory) : "", ReasonsText(result)));
}

std::string ToText(const SearchResult& result, const SearchRequest& request, bool all) {
  std::string text =
      fmt::format("search: {} devices{}, {} steps planned, {} of them predicted; {}\n", request.devices,
                  request.memory > 0 ? fmt::format(" of {} GiB", request.memory) : " of any memory", result.plans,
                  result.found.size(), all ? "all of them:" : "the fastest on each mesh (--verbose prints all):");
  text += TableText(result, all);
  return result.left_out.empty() ? text : text + "left out:\n" + ReasonsText(result);
}

std::string ToJson(const SearchResult& result) {
  nlohmann::ordered_json found = nlohmann::ordered_json::array(), reasons = nlohmann::ordered_json::object();
  for (const Found& f : result.found)
    found.push_back({{"step_ms", f.time.total},
                     {"exposed_collectives_ms", f.time.exposed},
                     {"memory", f.bytes},
                     {"tokens_per_s", f.tokens_per_s},
                     {"keys", f.candidate.keys}});
  for (const auto& [reason, count] : result.ReasonsOfAll()) reasons[reason] = count;
  nlohmann::ordered_json json = {{"plans", result.plans}, {"candidates", found}, {"left_out", reasons}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace weft
