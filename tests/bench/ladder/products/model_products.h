// The matrix products of a training step of Llama on random data, timed one by one at settled clocks and as whole
// steps.
//   Operands operands(model);   std::vector<Task> tasks = Tasks(model, operands);
#pragma once
#include <cstring>
#include <map>
#include <memory>

#include "../settled.h"

// ---- one product with its operands ----

struct Task {
  const char *name, *direction;
  ProductShape shape;
  int times;  // per layer, or per step for a product of the head
  bool in_head;
  double deviation;  // the standard deviation of a term of its sums
  const void *a, *b;
  void* c;
  std::shared_ptr<Product> product = nullptr;
  std::vector<float> burst_ms = {};
  std::vector<double> settled_ms = {};  // 0 for a candidate that is too slow in bursts to be timed further
  size_t chosen[3] = {};                // a candidate for each choice that a step may run with
  double flop() const { return 2. * shape.m * shape.n * shape.k; }
};

inline void Launch(const Bench& bench, const Task& t) {
  t.product->Run(t.a, t.b, t.c, bench.workspace.data(), bench.stream);
}

// Runs a candidate for some time.
inline Settled RunCandidate(Bench& bench, const Task& t, size_t candidate, double seconds) {
  t.product->Choose(candidate);
  return RunFor(bench, seconds, std::max(1, int(20 / t.burst_ms[candidate])), [&] { Launch(bench, t); });
}

// Times candidates in turn, A B C C B A and so on. Returns the mean ms of each.
inline std::map<size_t, double> InTurns(Bench& bench, const Task& t, std::vector<size_t> turns, int passes,
                                        double settle_seconds, double timed_seconds) {
  std::map<size_t, double> means;
  for (int pass = 0; pass < passes; ++pass, std::reverse(turns.begin(), turns.end()))
    for (size_t i : turns) {
      RunCandidate(bench, t, i, settle_seconds);
      means[i] += RunCandidate(bench, t, i, timed_seconds).ms / passes;
    }
  return means;
}

// Runs a candidate once. Returns the largest excess of its result.
inline float ErrorOf(const Bench& bench, const Task& t, size_t candidate) {
  t.product->Choose(candidate);
  Check(cudaMemset(t.c, 0xff, size_t(t.shape.m) * t.shape.n * sizeof(bf16)), "poison a result");
  Check(cudaDeviceSynchronize(), "poison a result");  // the bench's stream does not wait for the default stream
  Launch(bench, t);
  Check(cudaStreamSynchronize(bench.stream), "run a product");
  return Compare(t.shape, static_cast<const bf16*>(t.a), static_cast<const bf16*>(t.b), static_cast<const bf16*>(t.c),
                 1, t.deviation, 2e-3)
      .excess;
}

// ---- the products of a step ----

struct Weight {
  const char* name;
  int in, out;
  int times;  // per layer, or per step for the head; with 0 its products are timed, and a step leaves them out
  bool is_head = false;
};
struct Model {
  const char* name;
  int rows, layers;
  std::vector<Weight> weights;
};

constexpr int kVocabulary = 128256;
constexpr float kWeightDeviation = 0.02f;

inline Model Llama(const char* name, int rows, int width, int keys, int hidden, int layers) {
  return {name,
          rows,
          layers,
          {{"q, o", width, width, 2},
           {"k, v", width, keys, 2},
           {"gate, up", width, hidden, 2},
           {"down", hidden, width, 1},
           {"head", width, kVocabulary, 1, true}}};
}

// Returns a rank's part of Llama 8B on tensor parallel 4. It takes 4 sequences of 4096 tokens in two halves. The joined
// products, which a step leaves out, could replace those of their parts.
inline Model Llama8bTensorParallel() {
  return {"llama 8b tp 4",
          8192,
          32,
          {{"q", 4096, 1024, 2},
           {"k, v", 4096, 256, 4},
           {"o", 1024, 4096, 2},
           {"gate, up", 4096, 3584, 4},
           {"down", 3584, 4096, 2},
           {"head", 4096, kVocabulary / 4, 2, true},
           {"q+k+v", 4096, 1536, 0},
           {"gate+up", 4096, 7168, 0}}};
}

// Random operands, which all products of a model share. The results overwrite each other.
struct Operands {
  explicit Operands(const Model& m)
      : weight(Most(m, [](const Weight& w) { return size_t(w.in) * w.out; }), 1, 0, kWeightDeviation),
        input(Most(m, [&](const Weight& w) { return size_t(m.rows) * w.in; }), 2),
        gradient(Most(m, [&](const Weight& w) { return size_t(m.rows) * w.out; }), 3),
        output(std::max({weight.size(), input.size(), gradient.size()})) {}
  Buffer<bf16> weight, input, gradient, output;

 private:
  static size_t Most(const Model& m, const std::function<size_t(const Weight&)>& elements) {
    size_t most = 0;
    for (const Weight& w : m.weights) most = std::max(most, elements(w));
    return most;
  }
};

// Returns the forward product and both gradients of every weight. Weights of blocks are [in, out], and that of the head
// is [out, in].
inline std::vector<Task> Tasks(const Model& model, const Operands& o) {
  constexpr auto kN = CUBLAS_OP_N, kT = CUBLAS_OP_T;
  const void *w = o.weight.data(), *x = o.input.data(), *dy = o.gradient.data();
  std::vector<Task> tasks;
  const auto add = [&](const Weight& of, const char* direction, const ProductShape& shape, const void* a,
                       const void* b) {
    const double deviation = a == w ? kWeightDeviation : 1;
    tasks.push_back({of.name, direction, shape, of.times, of.is_head, deviation, a, b, o.output.data()});
  };
  const int rows = model.rows;
  for (const Weight& of : model.weights) {
    const cublasOperation_t forward = of.is_head ? kT : kN, back = of.is_head ? kN : kT;
    add(of, "forward", {of.out, rows, of.in, forward, kN}, w, x);  // [rows, out]
    add(of, "data", {of.in, rows, of.out, back, kN}, w, dy);       // [rows, in]
    if (of.is_head)
      add(of, "weight", {of.in, of.out, rows, kN, kT}, x, dy);  // [out, in]
    else
      add(of, "weight", {of.out, of.in, rows, kN, kT}, dy, x);  // [in, out]
  }
  return tasks;
}

inline int PerStep(const Model& model, const Task& t) { return t.in_head ? t.times : t.times * model.layers; }

// Issues a step with one of the choices: the blocks' forward products, the head, and the gradients.
inline void Step(const Bench& bench, const Model& model, const std::vector<Task>& tasks, int choice) {
  const auto launch = [&](const Task& t) {
    for (int i = 0; i < t.times; ++i) Launch(bench, t);
  };
  const auto block = [&](bool forward) {
    for (const Task& t : tasks)
      if (!t.in_head && forward == (std::strcmp(t.direction, "forward") == 0)) launch(t);
  };
  for (const Task& t : tasks) t.product->Choose(t.chosen[choice]);
  for (int l = 0; l < model.layers; ++l) block(true);
  for (const Task& t : tasks)
    if (t.in_head) launch(t);
  for (int l = 0; l < model.layers; ++l) block(false);
}

// The mean of several runs of a step.
struct StepRuns {
  Settled mean;
  double min_ms = 0, max_ms = 0;
};

// Runs steps in turn with the choices in the given order, each 0.5 s to settle and 2 s timed. Returns the runs of each
// choice.
inline std::map<int, StepRuns> RunSteps(Bench& bench, const Model& model, const std::vector<Task>& tasks,
                                        const std::vector<int>& order) {
  std::map<int, StepRuns> runs;
  const auto run = [&](int choice, double seconds) {
    return RunFor(bench, seconds, 1, [&] { Step(bench, model, tasks, choice); });
  };
  run(order[0], 3);
  for (int choice : order) {
    run(choice, 0.5);
    const Settled r = run(choice, 2);
    const double part = 1. / double(std::count(order.begin(), order.end(), choice));
    StepRuns& all = runs[choice];
    all.mean = {all.mean.ms + part * r.ms, all.mean.mhz + part * r.mhz, all.mean.watts + part * r.watts};
    all.min_ms = all.min_ms == 0 ? r.ms : std::min(all.min_ms, r.ms);
    all.max_ms = std::max(all.max_ms, r.ms);
  }
  return runs;
}

inline double StepFlop(const Model& model, const std::vector<Task>& tasks) {
  double flop = 0;
  for (const Task& t : tasks) flop += PerStep(model, t) * t.flop();
  return flop;
}
