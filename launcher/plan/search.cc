#include "launcher/plan/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

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

  Outcome LeaveOut(const std::string& reason) {
    result_.reasons[reason]++;
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
    if (!config.ok()) return LeaveOut(std::string(config.status().message()));
    if (result_.plans == kMostPlans) return LeaveOut(fmt::format("{} steps were planned before", kMostPlans));
    micro_batch = config->train.micro_batch;
    result_.plans++;
    try {
      PlannedStep planned(*config);
      return Add(candidate, *config, planned);
    } catch (const Error& e) {
      return LeaveOut(e.what());
    }
  }

  Outcome Add(const Candidate& candidate, const Config& config, PlannedStep& planned) {
    PlanReport report = MakePlanReport(config, planned);
    double reserved = on_gpu() ? double(kReservedBytes) : 0;
    if (request_.memory > 0 && double(report.memory.Total()) + reserved > request_.memory * kGiB) {
      LeaveOut(fmt::format("needs more than {} GiB", request_.memory));
      return Outcome::kTooLarge;
    }
    absl::StatusOr<StepTime> time = TimeOf(planned, rates_.rates);
    if (!time.ok()) return LeaveOut(LacksText(rates_, time.status()));
    report.time = *time;
    if (!seen_.insert({time->total, report.memory.Total()}).second) return LeaveOut(kSame);
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
  for (const auto& [reason, count] : result.reasons) text += fmt::format("  {:>4} x {}\n", count, reason);
  return text;
}

Words GivenAxes(const SearchRequest& request) {
  Words axes;
  for (const std::string& word : request.given)
    if (word.starts_with("mesh") || word.starts_with("--mesh")) axes.push_back(word);
  return axes;
}

}  // namespace

absl::StatusOr<SearchResult> Search(const Config& config, const SearchRequest& request, const RatesFile& rates,
                                    ConfigLoader load) {
  if (absl::Status s = CheckDevice(rates, PlannedDevice(config)); !s.ok()) return s;
  SearchResult result = Searcher(config, request, rates, load).Run();
  if (!result.found.empty()) return result;
  if (result.reasons.empty())
    return absl::InvalidArgumentError(fmt::format(
        "--search: expected a mesh of {} devices, got none that has the given axes: {}; leave one of them out, "
        "or give other devices",
        request.devices, fmt::join(GivenAxes(request), " ")));
  return absl::InvalidArgumentError(fmt::format(
      "--search: expected a mesh of {} devices on which the step can be planned{}, got none:\n{}", request.devices,
      request.memory > 0 ? fmt::format(" in {} GiB", request.memory) : "", ReasonsText(result)));
}

std::string ToText(const SearchResult& result, const SearchRequest& request) {
  constexpr size_t kShown = 10;
  std::string text = fmt::format("search: {} devices{}, {} steps planned, {} of them predicted\n", request.devices,
                                 request.memory > 0 ? fmt::format(" of {} GiB", request.memory) : " of any memory",
                                 result.plans, result.found.size());
  text += fmt::format("{:>10} {:>8} {:>18} {:>11}  keys\n", "step ms", "GiB", "tokens/s per rank", "exposed ms");
  for (size_t i = 0; i < std::min(kShown, result.found.size()); i++) {
    const Found& f = result.found[i];
    text += fmt::format("{:>10.4g} {:>8.2f} {:>18} {:>11.3g}  {}\n", f.time.total, double(f.bytes) / kGiB,
                        CountText(int64_t(f.tokens_per_s)), f.time.exposed, Pasted(f.candidate));
  }
  return result.reasons.empty() ? text : text + "left out:\n" + ReasonsText(result);
}

std::string ToJson(const SearchResult& result) {
  nlohmann::ordered_json found = nlohmann::ordered_json::array(), reasons = nlohmann::ordered_json::object();
  for (const Found& f : result.found)
    found.push_back({{"step_ms", f.time.total},
                     {"exposed_collectives_ms", f.time.exposed},
                     {"memory", f.bytes},
                     {"tokens_per_s", f.tokens_per_s},
                     {"keys", f.candidate.keys}});
  for (const auto& [reason, count] : result.reasons) reasons[reason] = count;
  nlohmann::ordered_json json = {{"plans", result.plans}, {"candidates", found}, {"left_out", reasons}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace weft
