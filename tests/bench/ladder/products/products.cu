// Probe: which of cuBLASLt's algorithms are fastest at the clocks of a training step, and what fp8 products gain there.
// Products on random data draw the GPU's full power, so their clock falls after some hundred ms. An algorithm that wins
// in a short burst may draw more power and lose in a step.
// - Products of a step of Llama: the algorithm is the heuristic's first, the fastest in bursts of 0.2 ms after a pause,
//   or the fastest at settled clocks. A step of products then runs with each of the three choices.
// - The products again (more_algorithms.h): are there faster algorithms than those that the heuristic names?
// - One product in fp8 (e4m3, one scale per tensor), with and without fast accumulation, next to bf16, for 10 s each.
#include <cuda_fp8.h>

#include <thread>

#include "more_algorithms.h"

using fp8 = __nv_fp8_e4m3;

// Times the candidates in bursts. The pause before them lets the clocks rise.
static void TryBursts(Bench& bench, Task& t) {
  ProductShape shape = t.shape;
  shape.candidates = kMostCandidates;
  t.product = std::make_shared<Product>(bench.cublas, shape);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  t.burst_ms = BurstsMs(*t.product, t.a, t.b, t.c, bench.workspace.data(), bench.stream);
  t.settled_ms.assign(t.product->candidates(), 0);
  t.chosen[1] = t.chosen[2] = Fastest(t.burst_ms);
}

// Times the candidates in turn at settled clocks, A B C C B A, twice. A candidate that takes 1.15 times as long as the
// fastest one in bursts is left out, because no saving of power makes up for that.
static void TrySettled(Bench& bench, Task& t, double heat) {
  std::vector<size_t> turns;
  const float most = 1.15f * t.burst_ms[t.chosen[1]];
  for (size_t i = 0; i < t.burst_ms.size(); ++i)
    if (i == 0 || t.burst_ms[i] <= most) turns.push_back(i);
  RunCandidate(bench, t, t.chosen[1], heat);
  for (const auto& [i, ms] : InTurns(bench, t, turns, 4, 0.06, 0.1)) t.settled_ms[i] = ms;
  for (size_t i : turns)
    if (t.settled_ms[i] < t.settled_ms[t.chosen[2]]) t.chosen[2] = i;
}

// ---- the products of a step ----

static void Print(const Model& model, const Task& t, float error) {
  const auto [a, b, c] = t.chosen;
  std::printf(
      "{\"probe\":\"products\",\"model\":\"%s\",\"product\":\"%s\",\"direction\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,"
      "\"per_step\":%d,\"candidates\":%zu,\"chosen\":[%zu,%zu,%zu],\"burst_ms\":[%.4f,%.4f,%.4f],"
      "\"settled_ms\":[%.4f,%.4f,%.4f],\"error\":%.2g}\n",
      model.name, t.name, t.direction, t.shape.m, t.shape.n, t.shape.k, PerStep(model, t), t.burst_ms.size(), a, b, c,
      t.burst_ms[a], t.burst_ms[b], t.burst_ms[c], t.settled_ms[a], t.settled_ms[b], t.settled_ms[c], error);
  std::fflush(stdout);
}

static void PrintStep(const Model& model, const std::vector<Task>& tasks, int choice, const StepRuns& runs) {
  constexpr const char* kNames[] = {"heuristic", "bursts", "settled"};
  double sum = 0, other = 0;
  for (const Task& t : tasks) {
    sum += PerStep(model, t) * t.settled_ms[t.chosen[choice]];
    other += t.chosen[choice] != t.chosen[2];
  }
  const auto& [mean, min_ms, max_ms] = runs;
  std::printf(
      "{\"probe\":\"products_step\",\"model\":\"%s\",\"rows\":%d,\"choice\":\"%s\",\"ms\":%.2f,\"min_ms\":%.2f,"
      "\"max_ms\":%.2f,\"tflop_s\":%.1f,\"mhz\":%.0f,\"watts\":%.0f,\"sum_of_settled_ms\":%.2f,"
      "\"chosen_otherwise_than_settled\":%.0f,\"products\":%zu}\n",
      model.name, model.rows, kNames[choice], mean.ms, min_ms, max_ms, StepFlop(model, tasks) / mean.ms * 1e-9,
      mean.mhz, mean.watts, sum, other, tasks.size());
  std::fflush(stdout);
}

static void MeasureModel(Bench& bench, const Model& model) {
  Operands operands(model);
  std::vector<Task> tasks = Tasks(model, operands);
  for (Task& t : tasks) TryBursts(bench, t);  // all of them before the GPU is warm
  for (Task& t : tasks) TrySettled(bench, t, &t == &tasks[0] ? 4 : 1);
  for (const Task& t : tasks) {
    float error = 0;
    for (size_t candidate : t.chosen) error = std::max(error, ErrorOf(bench, t, candidate));
    Print(model, t, error);
  }
  const auto runs = RunSteps(bench, model, tasks, {0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0});
  for (const auto& [choice, run] : runs) PrintStep(model, tasks, choice, run);
}

// ---- fp8 ----

// C[8192 rows, 4096] = X[8192, 14336] W^T with W [4096, 14336], the only layout of fp8 products on Hopper.
constexpr int kRows = 8192, kOut = 4096, kIn = 14336;
constexpr float kDeviation = 64;  // at most 222 of e4m3's 448 is used

template <typename T>
static void MeasureOne(Bench& bench, const char* name, ProductShape shape, const T* w, const T* x, bf16* y,
                       double scale, double sum_error) {
  Task task{name, "forward", shape, 1, false, kDeviation * kDeviation, w, x, y};
  TryBursts(bench, task);
  TrySettled(bench, task, 3);
  task.product->Choose(task.chosen[2]);
  const int batch = std::max(1, int(20 / task.burst_ms[task.chosen[2]]));
  const Settled run = RunFor(bench, 10, batch, [&] { Launch(bench, task); });
  Check(cudaMemset(y, 0xff, size_t(kRows) * kOut * sizeof(bf16)), "poison a result");
  Check(cudaDeviceSynchronize(), "poison a result");
  Launch(bench, task);
  Check(cudaStreamSynchronize(bench.stream), "run a product");
  const Errors errors = Compare(shape, w, x, y, scale, scale * kDeviation * kDeviation, sum_error);
  std::printf(
      "{\"probe\":\"products_fp8\",\"product\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,\"candidates\":%zu,\"ms\":%.4f,"
      "\"tflop_s\":%.1f,\"mhz\":%.0f,\"watts\":%.0f,\"pj_per_flop\":%.3f,\"burst_ms\":%.4f,\"burst_tflop_s\":%.1f,"
      "\"rms_error\":%.2g,\"error\":%.2g}\n",
      name, shape.m, shape.n, shape.k, task.burst_ms.size(), run.ms, task.flop() / run.ms * 1e-9, run.mhz, run.watts,
      run.watts * run.ms * 1e9 / task.flop(), task.burst_ms[task.chosen[1]],
      task.flop() / task.burst_ms[task.chosen[1]] * 1e-9, errors.rms, errors.excess);
  std::fflush(stdout);
}

// The four products, twice and in reverse the second time. Fast accumulation keeps about 14 bits of a sum, so it may be
// wrong by as much as a tenth of the sum's deviation.
static void MeasureFp8(Bench& bench) {
  constexpr auto kN = CUBLAS_OP_N, kT = CUBLAS_OP_T;
  Buffer<fp8> w8(size_t(kOut) * kIn, 1, 0, kDeviation), x8(size_t(kRows) * kIn, 2, 0, kDeviation);
  Buffer<bf16> w(w8.size(), 3, 0, kDeviation), x(x8.size(), 4, 0, kDeviation), y(size_t(kRows) * kOut);
  Buffer<float> scale(1, 5, 1 / kDeviation, 0);
  const auto eight = [&](bool fast) {
    const ProductShape shape = {.m = kOut,
                                .n = kRows,
                                .k = kIn,
                                .op_a = kT,
                                .type_of_ab = CUDA_R_8F_E4M3,
                                .fast_accumulation = fast,
                                .scale_a = scale.data(),
                                .scale_b = scale.data()};
    MeasureOne(bench, fast ? "fp8, fast accumulation" : "fp8", shape, w8.data(), x8.data(), y.data(),
               1 / double(kDeviation * kDeviation), fast ? 0.1 : 5e-3);
  };
  const auto sixteen = [&](cublasOperation_t op) {
    MeasureOne(bench, op == kT ? "bf16" : "bf16, W as [in, out]", {kOut, kRows, kIn, op, kN}, w.data(), x.data(),
               y.data(), 1, 2e-3);
  };
  eight(true), eight(false), sixteen(kT), sixteen(kN);
  sixteen(kN), sixteen(kT), eight(false), eight(true);
}

static Model ModelOf(const std::string& name) {
  if (name == "1b") return Llama("llama 1b", 4 * 4096, 2048, 512, 8192, 16);
  if (name == "8b") return Llama("llama 8b", 8192, 4096, 1024, 14336, 32);
  if (name == "8b_tp") return Llama8bTensorParallel();
  throw std::runtime_error("expected the model 1b, 8b or 8b_tp, got " + name);
}

// products [all | 1b | 8b | fp8]
// products more [1b | 8b | 8b_tp] [without=KEY,...]
int main(int argc, char** argv) try {
  const auto begin = std::chrono::steady_clock::now();
  const std::string mode = argc > 1 ? argv[1] : "all";
  if (mode != "all" && mode != "1b" && mode != "8b" && mode != "fp8" && mode != "more")
    throw std::runtime_error("measures all, 1b, 8b, fp8 or more, got " + mode);
  const Model model = ModelOf(mode != "more" ? "1b" : argc > 2 ? argv[2] : "1b");
  std::string without = argc > 3 ? argv[3] : "without=";
  if (without.rfind("without=", 0) != 0) throw std::runtime_error("expected without=KEY,..., got " + without);
  without.replace(0, std::strlen("without="), ",");
  std::printf("{\"probe\":\"versions\",%s,\"cublaslt\":%zu}\n", DeviceLine().c_str(), cublasLtGetVersion());
  Bench bench;
  if (mode == "all" || mode == "1b") MeasureModel(bench, ModelOf("1b"));
  if (mode == "all" || mode == "8b") MeasureModel(bench, ModelOf("8b"));
  if (mode == "all" || mode == "fp8") MeasureFp8(bench);
  if (mode == "more") MeasureMore(bench, model, without, begin);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "products: %s\n", e.what());
  return 1;
}
