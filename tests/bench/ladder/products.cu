// Probe: which of cuBLASLt's algorithms are fastest at the clocks of a training step, and what fp8 products gain there.
// Products on random data draw the GPU's full power, so their clock falls after some hundred ms. An algorithm that wins
// in a short burst may draw more power and lose in a step.
// - Products of a step of Llama: the algorithm is the heuristic's first, the fastest in bursts of 0.2 ms after a pause,
//   or the fastest at settled clocks. A step of products then runs with each of the three choices.
// - One product in fp8 (e4m3, one scale per tensor), with and without fast accumulation, next to bf16, for 10 s each.
#include <cuda_fp8.h>

#include <cstring>
#include <memory>
#include <thread>

#include "product.h"
#include "settled.h"

using fp8 = __nv_fp8_e4m3;

// ---- one product with its operands ----

struct Task {
  const char *name, *direction;
  ProductShape shape;
  int per_layer;  // 0: once per step
  const void *a, *b;
  void* c;
  std::shared_ptr<Product> product = nullptr;
  std::vector<float> burst_ms = {};
  std::vector<double> settled_ms = {};  // 0 for a candidate that is too slow in bursts to be timed further
  size_t chosen[3] = {};                // by the heuristic, in bursts, at settled clocks
  double flop() const { return 2. * shape.m * shape.n * shape.k; }
};

static void Launch(const Bench& bench, const Task& t) {
  t.product->Run(t.a, t.b, t.c, bench.workspace.data(), bench.stream);
}

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
  const auto run = [&](size_t candidate, double seconds) {
    t.product->Choose(candidate);
    return RunFor(bench, seconds, std::max(1, int(20 / t.burst_ms[candidate])), [&] { Launch(bench, t); }).ms;
  };
  run(t.chosen[1], heat);
  for (int pass = 0; pass < 4; ++pass, std::reverse(turns.begin(), turns.end()))
    for (size_t i : turns) {
      run(i, 0.06);
      t.settled_ms[i] += run(i, 0.1) / 4;
    }
  for (size_t i : turns)
    if (t.settled_ms[i] < t.settled_ms[t.chosen[2]]) t.chosen[2] = i;
}

// ---- the products of a step ----

struct Model {
  const char* name;
  int rows, width, keys, hidden, layers;
};
constexpr int kVocabulary = 128256;

// Random operands, which all products of a model share. The results overwrite each other.
struct Operands {
  explicit Operands(const Model& m)
      : weight(size_t(kVocabulary) * m.width, 1, 0, 0.02f),
        input(size_t(m.rows) * m.hidden, 2),
        gradient(size_t(m.rows) * kVocabulary, 3),
        output(size_t(kVocabulary) * std::max(m.rows, m.width)) {}
  Buffer<bf16> weight, input, gradient, output;
};

// Returns the forward product and both gradients of every weight. Weights of blocks are [in, out], and that of the head
// is [vocabulary, width].
static std::vector<Task> Tasks(const Model& model, const Operands& o) {
  constexpr auto kN = CUBLAS_OP_N, kT = CUBLAS_OP_T;
  const void *w = o.weight.data(), *x = o.input.data(), *dy = o.gradient.data();
  std::vector<Task> tasks;
  const auto add = [&](const char* name, int in, int out, int per_layer) {
    const int rows = model.rows;
    tasks.push_back({name, "forward", {out, rows, in, kN, kN}, per_layer, w, x, o.output.data()});  // [rows, out]
    tasks.push_back({name, "data", {in, rows, out, kT, kN}, per_layer, w, dy, o.output.data()});    // [rows, in]
    tasks.push_back({name, "weight", {out, in, rows, kN, kT}, per_layer, dy, x, o.output.data()});  // [in, out]
  };
  add("q, o", model.width, model.width, 2);
  add("k, v", model.width, model.keys, 2);
  add("gate, up", model.width, model.hidden, 2);
  add("down", model.hidden, model.width, 1);
  const int width = model.width, rows = model.rows, v = kVocabulary;
  tasks.push_back({"head", "forward", {v, rows, width, kT, kN}, 0, w, x, o.output.data()});  // [rows, vocabulary]
  tasks.push_back({"head", "data", {width, rows, v, kN, kN}, 0, w, dy, o.output.data()});    // [rows, width]
  tasks.push_back({"head", "weight", {width, v, rows, kN, kT}, 0, x, dy, o.output.data()});  // [vocabulary, width]
  return tasks;
}

// Issues a step with one of the three choices: the blocks' forward products, the head, and the gradients.
static void Step(const Bench& bench, const Model& model, const std::vector<Task>& tasks, int choice) {
  const auto block = [&](bool forward) {
    for (const Task& t : tasks)
      if (forward == (std::strcmp(t.direction, "forward") == 0))
        for (int i = 0; i < t.per_layer; ++i) Launch(bench, t);
  };
  for (const Task& t : tasks) t.product->Choose(t.chosen[choice]);
  for (int l = 0; l < model.layers; ++l) block(true);
  for (const Task& t : tasks)
    if (t.per_layer == 0) Launch(bench, t);
  for (int l = 0; l < model.layers; ++l) block(false);
}

static void Print(const Model& model, const Task& t, float error) {
  const auto [a, b, c] = t.chosen;
  std::printf(
      "{\"probe\":\"products\",\"model\":\"%s\",\"product\":\"%s\",\"direction\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,"
      "\"per_step\":%d,\"candidates\":%zu,\"chosen\":[%zu,%zu,%zu],\"burst_ms\":[%.4f,%.4f,%.4f],"
      "\"settled_ms\":[%.4f,%.4f,%.4f],\"error\":%.2g}\n",
      model.name, t.name, t.direction, t.shape.m, t.shape.n, t.shape.k, t.per_layer ? t.per_layer * model.layers : 1,
      t.burst_ms.size(), a, b, c, t.burst_ms[a], t.burst_ms[b], t.burst_ms[c], t.settled_ms[a], t.settled_ms[b],
      t.settled_ms[c], error);
  std::fflush(stdout);
}

// Runs a product once with each of its three choices. Returns the largest excess.
static float WorstError(const Bench& bench, const Task& t, double deviation) {
  float worst = 0;
  for (size_t candidate : t.chosen) {
    t.product->Choose(candidate);
    Check(cudaMemset(t.c, 0xff, size_t(t.shape.m) * t.shape.n * sizeof(bf16)), "poison a result");
    Check(cudaDeviceSynchronize(), "poison a result");  // the bench's stream does not wait for the default stream
    Launch(bench, t);
    Check(cudaStreamSynchronize(bench.stream), "run a product");
    const Errors errors = Compare(t.shape, static_cast<const bf16*>(t.a), static_cast<const bf16*>(t.b),
                                  static_cast<const bf16*>(t.c), 1, deviation, 2e-3);
    worst = std::max(worst, errors.excess);
  }
  return worst;
}

static void PrintStep(const Model& model, const std::vector<Task>& tasks, int choice,
                      const std::vector<Settled>& runs) {
  constexpr const char* kNames[] = {"heuristic", "bursts", "settled"};
  double flop = 0, sum = 0, other = 0;
  Settled mean, least = runs[0], most = runs[0];
  for (const Task& t : tasks) {
    const double times = t.per_layer ? t.per_layer * model.layers : 1;
    flop += times * t.flop(), sum += times * t.settled_ms[t.chosen[choice]];
    other += t.chosen[choice] != t.chosen[2];
  }
  for (const Settled& r : runs) {
    const double part = 1. / double(runs.size());
    mean = {mean.ms + part * r.ms, mean.mhz + part * r.mhz, mean.watts + part * r.watts};
    least.ms = std::min(least.ms, r.ms), most.ms = std::max(most.ms, r.ms);
  }
  std::printf(
      "{\"probe\":\"products_step\",\"model\":\"%s\",\"rows\":%d,\"choice\":\"%s\",\"ms\":%.2f,\"min_ms\":%.2f,"
      "\"max_ms\":%.2f,\"tflop_s\":%.1f,\"mhz\":%.0f,\"watts\":%.0f,\"sum_of_settled_ms\":%.2f,"
      "\"chosen_otherwise_than_settled\":%.0f,\"products\":%zu}\n",
      model.name, model.rows, kNames[choice], mean.ms, least.ms, most.ms, flop / mean.ms * 1e-9, mean.mhz, mean.watts,
      sum, other, tasks.size());
  std::fflush(stdout);
}

static void MeasureModel(Bench& bench, const Model& model) {
  Operands operands(model);
  std::vector<Task> tasks = Tasks(model, operands);
  for (Task& t : tasks) TryBursts(bench, t);  // all of them before the GPU is warm
  for (Task& t : tasks) TrySettled(bench, t, &t == &tasks[0] ? 4 : 1);
  for (const Task& t : tasks) {
    const bool has_weight = t.a == operands.weight.data();
    Print(model, t, WorstError(bench, t, has_weight ? 0.02 : 1));
  }
  std::vector<Settled> runs[3];
  const auto run = [&](int choice, double seconds) {
    return RunFor(bench, seconds, 1, [&] { Step(bench, model, tasks, choice); });
  };
  run(1, 3);
  for (int choice : {0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0}) {
    run(choice, 0.5);
    runs[choice].push_back(run(choice, 2));
  }
  for (int choice : {0, 1, 2}) PrintStep(model, tasks, choice, runs[choice]);
}

// ---- fp8 ----

// C[8192 rows, 4096] = X[8192, 14336] W^T with W [4096, 14336], the only layout of fp8 products on Hopper.
constexpr int kRows = 8192, kOut = 4096, kIn = 14336;
constexpr float kDeviation = 64;  // at most 222 of e4m3's 448 is used

template <typename T>
static void MeasureOne(Bench& bench, const char* name, ProductShape shape, const T* w, const T* x, bf16* y,
                       double scale, double sum_error) {
  Task task{name, "forward", shape, 0, w, x, y};
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

// products [all | 1b | 8b | fp8]
int main(int argc, char** argv) try {
  const std::string mode = argc > 1 ? argv[1] : "all";
  if (mode != "all" && mode != "1b" && mode != "8b" && mode != "fp8")
    throw std::runtime_error("measures all, 1b, 8b or fp8, got " + mode);
  std::printf("{\"probe\":\"versions\",%s,\"cublaslt\":%zu}\n", DeviceLine().c_str(), cublasLtGetVersion());
  Bench bench;
  if (mode == "all" || mode == "1b") MeasureModel(bench, {"llama 1b", 4 * 4096, 2048, 512, 8192, 16});
  if (mode == "all" || mode == "8b") MeasureModel(bench, {"llama 8b", 8192, 4096, 1024, 14336, 32});
  if (mode == "all" || mode == "fp8") MeasureFp8(bench);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "products: %s\n", e.what());
  return 1;
}
