// Mode "more" of the probe `products`: are there faster algorithms than those that the heuristic names?
//   MeasureMore(bench, model, without, begin);   // its time limit counts from the begin, when the process started
#pragma once
#include "more_bursts.h"

constexpr double kSeconds = 162, kSecondsForSteps = 30;  // of the whole mode
constexpr double kTileSeconds = 0.8, kNeighbourSeconds = 0.5;
constexpr float kClose = 1.1f;  // candidates within it of the best in bursts are timed at settled clocks
constexpr size_t kMostNamed = 3, kMostOthers = 6, kRefined = 4;

// The choices of a step: the best that the heuristic names, and the best of all.
enum Choice { kNamed, kMore };

struct Search {
  Bursts::Counts counts;
  size_t finalists = 0;
  double ms[2] = {};  // at settled clocks, by choice; the best of all may lose the second time, and is then not chosen
  size_t best[2] = {};
  std::string kernels[2];
};

// Times the named algorithms, others with their tiles and clusters changed, and then changes of the
// fastest ones.
inline void TryAlgorithms(const Task& t, Bursts& bursts) {
  weft::cuda::AlgorithmSearch search(t.product->problem(), t.product->algorithms());
  const double part = std::clamp(double(bursts.best_ms()) / 4, 1., 2.);  // a long product has more seconds
  bursts.Try(search.Tiles(), part * kTileSeconds);
  bursts.Try(search.Neighbours(bursts.Fastest(kRefined)), part * kNeighbourSeconds);
}

// Returns the fastest candidates in bursts that are right. The best named one is among them even if it is not close.
inline std::vector<size_t> Finalists(const Task& t, Bursts& bursts) {
  std::vector<size_t> finalists;
  size_t named = 0, others = 0;
  for (size_t i : bursts.Sorted()) {
    const bool is_named = i < bursts.counts().named;
    const bool close = finalists.empty() || t.burst_ms[i] <= kClose * t.burst_ms[finalists[0]];
    const bool wanted = is_named ? named < (close ? kMostNamed : 1) : close && others < kMostOthers;
    if (!wanted || !bursts.Right(i)) continue;
    ++(is_named ? named : others);
    finalists.push_back(i);
  }
  return finalists;
}

// Times the finalists in turn, and then once more the best named one and the best of all. The second times are the
// result: the best of many is partly the luckiest, and a second time has no part of that.
inline void CompareSettled(Bench& bench, Task& t, const std::vector<size_t>& finalists, double seconds, Search& s) {
  constexpr int kPasses = 2, kLastPasses = 4;
  constexpr double kHeat = 0.2, kOverhead = 0.03;  // a run takes longer by a batch or two
  const double turn = (seconds - kHeat) / double(kPasses * finalists.size() + 2 * kLastPasses);
  const double settle = std::max(0.01, turn * 3 / 8 - kOverhead), timed = std::max(0.03, turn * 5 / 8 - kOverhead);
  RunCandidate(bench, t, finalists[0], kHeat);
  std::map<size_t, double> means = InTurns(bench, t, finalists, kPasses, settle, timed);
  const auto faster = [&](const auto& a, const auto& b) { return a.second < b.second; };
  // Named candidates have the lowest indices.
  s.best[kNamed] = std::min_element(means.begin(), means.lower_bound(s.counts.named), faster)->first;
  s.best[kMore] = std::min_element(means.begin(), means.end(), faster)->first;
  if (s.best[kNamed] != s.best[kMore])
    means = InTurns(bench, t, {s.best[kNamed], s.best[kMore]}, kLastPasses, settle, timed);
  for (Choice choice : {kNamed, kMore}) s.ms[choice] = means.at(s.best[choice]);
  t.chosen[kNamed] = s.best[kNamed];
  t.chosen[kMore] = s.ms[kMore] < s.ms[kNamed] ? s.best[kMore] : s.best[kNamed];
}

inline Search SearchProduct(Bench& bench, Task& t, const std::string& without, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  Bursts bursts(bench, t, without);
  TryAlgorithms(t, bursts);
  const std::vector<size_t> finalists = Finalists(t, bursts);
  Search s;
  s.counts = bursts.counts();
  s.finalists = finalists.size();
  CompareSettled(bench, t, finalists, seconds - SecondsSince(begin), s);
  for (Choice choice : {kNamed, kMore}) s.kernels[choice] = bursts.Captured(s.best[choice]).kernels;
  return s;
}

// ---- printing ----

inline std::string Describe(const Algorithm& one, const std::string& kernels) {
  constexpr std::pair<const char*, weft::cuda::Attribute> kNames[] = {
      {"id", CUBLASLT_ALGO_CONFIG_ID},
      {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID},
      {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID},
      {"split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
      {"reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
      {"swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
      {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION},
      {"inner_shape", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID},
      {"cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID}};
  std::string text = "{";
  for (const auto& [name, attribute] : kNames)
    text += "\"" + std::string(name) + "\":" + std::to_string(weft::cuda::GetAttribute(one, attribute)) + ",";
  return text + "\"kernel\":\"" + kernels + "\"}";
}

inline void PrintMore(const Model& model, const Task& t, const Search& s, float error) {
  const auto describe = [&](Choice choice) {
    return Describe(t.product->algorithms()[s.best[choice]], s.kernels[choice]);
  };
  const auto& c = s.counts;
  std::printf(
      "{\"probe\":\"products_more\",\"model\":\"%s\",\"product\":\"%s\",\"direction\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%"
      "d,"
      "\"per_step\":%d,\"named\":%zu,\"accepted\":%zu,\"timed\":%zu,\"repeats\":%zu,\"failed\":%zu,\"wrong\":%zu,"
      "\"finalists\":%zu,\"named_ms\":%.4f,\"more_ms\":%.4f,\"gain\":%.4f,\"error\":%.2g,"
      "\"burst_ms\":[%.4f,%.4f],\"best_named\":%s,\"best_of_all\":%s}\n",
      model.name, t.name, t.direction, t.shape.m, t.shape.n, t.shape.k, PerStep(model, t), c.named, c.accepted, c.timed,
      c.repeats, c.failed, c.wrong, s.finalists, s.ms[kNamed], s.ms[kMore], 1 - s.ms[kMore] / s.ms[kNamed], error,
      t.burst_ms[s.best[kNamed]], t.burst_ms[s.best[kMore]], describe(kNamed).c_str(), describe(kMore).c_str());
  std::fflush(stdout);
}

inline void PrintMoreStep(const Model& model, const std::vector<Task>& tasks, const std::vector<Search>& searches,
                          int choice, const StepRuns& runs) {
  double sum = 0, changed = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const bool changes = tasks[i].chosen[kNamed] != tasks[i].chosen[kMore];
    sum += PerStep(model, tasks[i]) * searches[i].ms[choice == kMore && changes ? kMore : kNamed];
    changed += tasks[i].times > 0 && changes;
  }
  const auto& [mean, min_ms, max_ms] = runs;
  std::printf(
      "{\"probe\":\"products_more_step\",\"model\":\"%s\",\"rows\":%d,\"choice\":\"%s\",\"ms\":%.2f,\"min_ms\":%.2f,"
      "\"max_ms\":%.2f,\"tflop_s\":%.1f,\"mhz\":%.0f,\"watts\":%.0f,\"sum_of_settled_ms\":%.2f,\"changed\":%.0f}\n",
      model.name, model.rows, choice == kNamed ? "named" : "more", mean.ms, min_ms, max_ms,
      StepFlop(model, tasks) / mean.ms * 1e-9, mean.mhz, mean.watts, sum, changed);
  std::fflush(stdout);
}

// ---- the mode ----

// Searches each product and then runs steps with both choices in turn. Every product has an equal part of the time
// that is left, so the mode ends in time.
inline void MeasureMore(Bench& bench, const Model& model, const std::string& without,
                        std::chrono::steady_clock::time_point begin) {
  Operands operands(model);
  std::vector<Task> tasks = Tasks(model, operands);
  std::vector<Search> searches;
  for (Task& t : tasks) {
    const double left = kSeconds - kSecondsForSteps - SecondsSince(begin);
    searches.push_back(SearchProduct(bench, t, without, left / double(tasks.size() - searches.size())));
    PrintMore(model, t, searches.back(), ErrorOf(bench, t, searches.back().best[kMore]));
  }
  const auto runs = RunSteps(bench, model, tasks, {kNamed, kMore, kMore, kNamed, kNamed, kMore, kMore, kNamed});
  for (const auto& [choice, run] : runs) PrintMoreStep(model, tasks, searches, choice, run);
}
