#include "weft/train/profile/profile_totals.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "weft/core/base/memory.h"
#include "weft/core/passes/block.h"

namespace weft {

std::string FoldedScope(const std::string& scope) {
  std::vector<std::string> parts = absl::StrSplit(scope, '.');
  for (size_t i = 1; i < parts.size(); i++)
    if (IsBlockNumber(parts[i])) parts[i].assign(1, '*');  // GCC 12 warns of "*" without a reason
  return absl::StrJoin(parts, ".");
}

void ProfileTotals::AddKernel(const ProfiledBatch& batch) {
  std::string op = batch.is_copies() ? "copy" : Name(batch.node().op);
  std::string phase = batch.is_copies() ? "" : Name(batch.node().phase);
  Kernels& sum = kernels[{op, FoldedScope(batch.scope()), phase}];
  sum.calls += batch.is_copies() ? 1 : double(batch.steps.size());
  sum.time += double(batch.span.length());
  sum.bytes += double(batch.cost.bytes);
  sum.flops += batch.cost.flops;
  kernel_time += double(batch.span.length());
}

void ProfileTotals::AddCollective(const ProfiledBatch& batch, const std::string& axis, const Exposed& exposed_time,
                                  int64_t handed) {
  Collectives& sum = collectives[{Name(batch.node().op), axis}];
  sum.calls++;
  sum.time += double(batch.span.length());
  sum.exposed += double(exposed_time.all);
  sum.waiting += double(exposed_time.waiting);
  sum.bytes += double(handed);
  collective_time += double(batch.span.length());
  exposed += double(exposed_time.all);
  waiting += double(exposed_time.waiting);
}

std::vector<double*> ProfileTotals::Numbers() {
  std::vector<double*> all{&steps, &step_time, &kernel_time, &collective_time, &exposed, &waiting};
  for (auto& [key, sum] : kernels) all.insert(all.end(), {&sum.calls, &sum.time, &sum.bytes, &sum.flops});
  for (auto& [key, sum] : collectives)
    all.insert(all.end(), {&sum.calls, &sum.time, &sum.exposed, &sum.waiting, &sum.bytes});
  return all;
}

// All ranks run the same programs, so the maps have the same keys.
void ProfileTotals::SumOverRanks(ProcessGroup& world) {
  std::vector<double*> numbers = Numbers();
  std::vector<double> values;
  for (const double* number : numbers) values.push_back(*number);
  world.AllReduce(values.data(), values.data(), int64_t(values.size()), DType::kF64);
  for (size_t i = 0; i < numbers.size(); i++) *numbers[i] = values[i];
}

namespace {

// Returns the rows that take most time, longest first.
template <class Map>
std::vector<const typename Map::value_type*> Longest(const Map& sums) {
  constexpr size_t kMost = 10;
  std::vector<const typename Map::value_type*> rows;
  for (const auto& row : sums) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->second.time > b->second.time; });
  rows.resize(std::min(rows.size(), kMost));
  return rows;
}

double PerNanosecond(double amount, double time) { return time > 0 ? amount / time : 0; }

// For example "12.3" on a CPU and "605032" on a GPU.
std::string RateText(double rate) { return rate < 1000 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate); }

std::string KernelLines(const ProfileTotals& t) {
  std::string text =
      fmt::format("  {:<39}{:>6}{:>9}{:>7}{:>8}{:>9}\n", "kernel", "calls", "ms", "share", "GB/s", "GFLOP/s");
  for (const auto* row : Longest(t.kernels)) {
    const auto& [op, scope, phase] = row->first;
    const ProfileTotals::Kernels& k = row->second;
    std::string name = fmt::format("{} {}{}{}", op, scope, scope.empty() ? "" : " ", phase);
    std::string flops = k.flops > 0 ? fmt::format("{:>9}", RateText(PerNanosecond(k.flops, k.time))) : "";
    text += fmt::format("  {:<39.38}{:>6.0f}{:>9.3f}{:>6.1f}%{:>8}{}\n", name, k.calls / t.steps,
                        k.time / t.steps / 1e6, 100 * t.Share(k.time), RateText(PerNanosecond(k.bytes, k.time)), flops);
  }
  return text;
}

std::string CollectiveLines(const ProfileTotals& t) {
  std::string text = fmt::format("  {:<16}{:<12}{:>8}{:>13}{:>9}{:>9}{:>9}\n", "collective", "axis", "calls", "bytes",
                                 "ms", "exposed", "waiting");
  for (const auto* row : Longest(t.collectives)) {
    const auto& [op, axis] = row->first;
    const ProfileTotals::Collectives& c = row->second;
    text += fmt::format("  {:<16}{:<12}{:>8.0f}{:>13}{:>9.3f}{:>9.3f}{:>9.3f}\n", op, axis, c.calls / t.steps,
                        BytesText(size_t(c.bytes / t.steps)), c.time / t.steps / 1e6, c.exposed / t.steps / 1e6,
                        c.waiting / t.steps / 1e6);
  }
  return text;
}

}  // namespace

std::string ProfileTable(const ProfileTotals& totals) {
  std::string text = KernelLines(totals);
  if (!totals.collectives.empty()) text += CollectiveLines(totals);
  return text;
}

}  // namespace weft
