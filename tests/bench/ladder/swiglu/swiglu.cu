// Probe: whether an own Hopper product with SwiGLU in its epilogue (swiglu.h) beats cuBLASLt's products and a kernel of
// SwiGLU after them, at the clocks of a training step.
// For each shape and direction it compares every program's results with sums in f64 on a sample, compares the fused
// kernels' results with the unfused program's, all elements, and times all programs in turn, A B B A. A wrong result
// is printed as such and makes the exit code 1. A kernel whose wait does not end in 2 s ends the probe with an error.
#include <memory>

#include "../product.h"
#include "../settled.h"
#include "swiglu.h"

constexpr float kWeight = 0.02f;  // the deviation of weights; that of x and dy is 1
constexpr int kLead = 3;          // steps between the warpgroups, where they have a lead
constexpr double kHeat = 1, kSettle = 0.1, kSeconds = 0.6;
static bool g_wrong = false;
static int4* g_report = nullptr;  // a wait that did not end, in memory of the host

struct Shape {
  const char* model;
  int rows, width, hidden;
  size_t Count() const { return size_t(rows) * hidden; }
};

// The inputs, the results of cuBLASLt and kernels after it, and those of the fused kernels.
struct Operands {
  explicit Operands(const Shape& s)
      : x(size_t(s.rows) * s.width, 1),
        dy(x.size(), 2),
        w_gate(size_t(s.width) * s.hidden, 3, 0, kWeight),
        w_up(w_gate.size(), 4, 0, kWeight),
        w_down(w_gate.size(), 5, 0, kWeight),
        w_both(2 * w_gate.size()),
        gate(s.Count()),
        up(s.Count()),
        act(s.Count()),
        both(2 * s.Count()),
        da(s.Count()),
        dgate(s.Count()),
        dup(s.Count()),
        own_gate(s.Count()),
        own_up(s.Count()),
        own_act(s.Count()),
        own_da(s.Count()),
        own_dgate(s.Count()),
        own_dup(s.Count()) {
    const size_t row = s.hidden * sizeof(bf16);
    for (const Buffer<bf16>* w : {&w_gate, &w_up})
      Check(cudaMemcpy2D(w_both.data() + (w == &w_up ? s.hidden : 0), 2 * row, w->data(), row, row, s.width,
                         cudaMemcpyDeviceToDevice),
            "put weights next to each other");
  }
  void PoisonOwn() {
    for (Buffer<bf16>* b : {&own_gate, &own_up, &own_act, &own_da, &own_dgate, &own_dup}) b->Poison();
    Check(cudaDeviceSynchronize(), "poison results");  // the bench's stream does not wait for the default stream
  }
  Buffer<bf16> x, dy, w_gate, w_up, w_down, w_both, gate, up, act, both, da, dgate, dup;
  Buffer<bf16> own_gate, own_up, own_act, own_da, own_dgate, own_dup;
};

// ---- programs ----

// Row-major results are column-major products with the operands exchanged.
static ProductShape Up(const Shape& s, int columns) {
  return {.m = columns, .n = s.rows, .k = s.width, .candidates = kMostCandidates};
}
static ProductShape Down(const Shape& s) {
  return {.m = s.hidden, .n = s.rows, .k = s.width, .op_a = CUBLAS_OP_T, .candidates = kMostCandidates};
}

// Returns the launch of a product by the candidate that is the fastest in bursts.
static std::function<void()> ProductOf(const Bench& bench, const ProductShape& shape, const Buffer<bf16>& a,
                                       const Buffer<bf16>& b, const Buffer<bf16>& c) {
  auto product = std::make_shared<Product>(bench.cublas, shape);
  uint8_t* workspace = bench.workspace.data();
  product->Choose(Fastest(BurstsMs(*product, a.data(), b.data(), c.data(), workspace, bench.stream)));
  return [=, stream = bench.stream, a = a.data(), b = b.data(), c = c.data()] {
    product->Run(a, b, c, workspace, stream);
  };
}

static void LaunchAct(const Bench& bench, const Shape& s, const bf16* gate, const bf16* up, int stride, bf16* act) {
  const uint32_t vectors = uint32_t(s.Count() / 8);
  swiglu::Forward<<<(vectors + 255) / 256, 256, 0, bench.stream>>>(gate, up, act, s.hidden, stride, vectors);
  Check(cudaGetLastError(), "launch SwiGLU");
}

static void LaunchGradients(const Bench& bench, const Shape& s, const Operands& o) {
  const uint32_t vectors = uint32_t(s.Count() / 8);
  const auto in = [](const Buffer<bf16>& b) { return reinterpret_cast<const uint4*>(b.data()); };
  const auto out = [](const Buffer<bf16>& b) { return reinterpret_cast<uint4*>(b.data()); };
  swiglu::Backward<<<(vectors + 255) / 256, 256, 0, bench.stream>>>(in(o.da), in(o.gate), in(o.up), out(o.dgate),
                                                                    out(o.dup), vectors);
  Check(cudaGetLastError(), "launch SwiGLU's gradient");
}

static swiglu::Maps MapsOf(const Shape& s, const Operands& o, bool forward, bool plain) {
  const cuuint64_t rows = s.rows, width = s.width, hidden = s.hidden;
  const auto result = [&](const Buffer<bf16>& b, cuuint32_t box_rows) {
    return hopper::TensorMap<2>(b.data(), {hidden, rows}, {swiglu::kPanel, box_rows});
  };
  const auto store = [&](const Buffer<bf16>& b) { return result(b, swiglu::kWarpRows); };
  swiglu::Maps maps;
  maps.a = hopper::TensorMap<2>((forward ? o.x : o.dy).data(), {width, rows}, {swiglu::kTerms, swiglu::kRows});
  for (int i = 0; i < 2; ++i) {
    const Buffer<bf16>& weight = i == 0 ? o.w_gate : o.w_up;
    maps.b[i] = forward ? hopper::TensorMap<2>(weight.data(), {hidden, width}, {swiglu::kPanel, swiglu::kTerms})
                        : hopper::TensorMap<2>(o.w_down.data(), {width, hidden}, {swiglu::kTerms, 128});
    maps.in[i] = result(i == 0 ? o.gate : o.up, swiglu::kRows);
  }
  maps.out[0] = store(forward ? o.own_gate : plain ? o.own_da : o.own_dgate);
  maps.out[1] = store(forward ? o.own_up : o.own_dup);
  maps.out[2] = store(o.own_act);
  return maps;
}

// Returns the launch of a fused kernel on as many blocks as the GPU holds.
template <bool kForward, int kCluster, bool kPlain, int kLead>
static std::function<void()> FusedOf(const Bench& bench, const Shape& s, const Operands& o) {
  const auto kernel = swiglu::Fused<kForward, kCluster, kPlain, kLead>;
  constexpr int kBytes = sizeof(swiglu::Memory), kColumns = kForward ? 128 : 256;
  if (s.rows % (swiglu::kRowTiles * swiglu::kRows) || s.hidden % kColumns || s.width % swiglu::kTerms ||
      s.width <= kLead * swiglu::kTerms)
    throw std::runtime_error("the fused kernel has no partial tiles, and needs more terms than its lead");
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "raise the shared memory limit");
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = kCluster, config.blockDim = swiglu::kThreads;
  config.dynamicSmemBytes = kBytes, config.stream = bench.stream;
  config.attrs = &cluster, config.numAttrs = 1;
  int clusters = 0;
  Check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "count the clusters that fit");
  if (clusters == 0) throw std::runtime_error("no cluster of a fused kernel fits");
  cudaFuncAttributes attributes;
  Check(cudaFuncGetAttributes(&attributes, kernel), "read the kernel's attributes");
  std::printf(
      "{\"probe\":\"swiglu_kernel\",\"direction\":\"%s\",\"cluster\":%d,\"lead\":%d,\"plain\":%s,\"blocks\":%d,"
      "\"shared_bytes\":%d,\"local_bytes\":%zu}\n",
      kForward ? "forward" : "backward", kCluster, kLead, kPlain ? "true" : "false", clusters * kCluster, kBytes,
      attributes.localSizeBytes);
  config.gridDim = clusters * kCluster;
  const swiglu::Maps maps = MapsOf(s, o, kForward, kPlain);
  const swiglu::Problem problem{s.width, s.rows / swiglu::kRows / kCluster, s.hidden / kColumns, g_report};
  return [=]() mutable {
    config.attrs = &cluster;
    Check(cudaLaunchKernelEx(&config, kernel, maps, problem), "launch a fused kernel");
  };
}

struct Program {
  std::string name;
  std::function<void()> launch;
  std::vector<Settled> runs = {};
};

// Adds the fused kernel on single blocks, on pairs, and on pairs with a lead, or those that `only` names.
template <bool kForward>
static void AddFused(std::vector<Program>& programs, const Bench& bench, const Shape& s, const Operands& o, int only) {
  if (only != 2) programs.push_back({"fused", FusedOf<kForward, 1, false, 0>(bench, s, o)});
  if (only == 1) return;
  programs.push_back({"fused, pairs", FusedOf<kForward, 2, false, 0>(bench, s, o)});
  programs.push_back({"fused, pairs, lead", FusedOf<kForward, 2, false, kLead>(bench, s, o)});
}

template <bool kForward>
static void AddPlain(std::vector<Program>& programs, const Bench& bench, const Shape& s, const Operands& o, int only) {
  if (only == 1)
    programs.push_back({"own product", FusedOf<kForward, 1, true, 0>(bench, s, o)});
  else
    programs.push_back({"own product, pairs", FusedOf<kForward, 2, true, 0>(bench, s, o)});
}

static std::vector<Program> ForwardPrograms(const Bench& bench, const Shape& s, const Operands& o, int only) {
  const auto gate = ProductOf(bench, Up(s, s.hidden), o.w_gate, o.x, o.gate);
  const auto up = ProductOf(bench, Up(s, s.hidden), o.w_up, o.x, o.up);
  const auto both = ProductOf(bench, Up(s, 2 * s.hidden), o.w_both, o.x, o.both);
  const auto act = [&bench, &o, s] { LaunchAct(bench, s, o.gate.data(), o.up.data(), s.hidden, o.act.data()); };
  const auto act_of_both = [&bench, &o, s] {
    LaunchAct(bench, s, o.both.data(), o.both.data() + s.hidden, 2 * s.hidden, o.own_act.data());
  };
  std::vector<Program> programs;
  programs.push_back({"two products, swiglu", [=] { gate(), up(), act(); }});
  programs.push_back({"one product, swiglu", [=] { both(), act_of_both(); }});
  AddFused<true>(programs, bench, s, o, only);
  programs.push_back({"two products", [=] { gate(), up(); }});
  programs.push_back({"one product", both});
  AddPlain<true>(programs, bench, s, o, only);
  return programs;
}

static std::vector<Program> BackwardPrograms(const Bench& bench, const Shape& s, const Operands& o, int only) {
  const auto da = ProductOf(bench, Down(s), o.w_down, o.dy, o.da);
  const auto gradients = [&bench, &o, s] { LaunchGradients(bench, s, o); };
  std::vector<Program> programs;
  programs.push_back({"product, swiglu_grad", [=] { da(), gradients(); }});
  AddFused<false>(programs, bench, s, o, only);
  programs.push_back({"product", da});
  AddPlain<false>(programs, bench, s, o, only);
  return programs;
}

// ---- checking ----

__device__ inline void KeepLarger(float& worst, float excess) {
  worst = fmaxf(worst, excess <= 1e9f ? excess : 1e9f);  // NaN counts as 1e9
}
__device__ inline void KeepLargest(float* largest, float worst) {
  atomicMax(reinterpret_cast<int*>(largest), __float_as_int(worst));  // floats of one sign are in the order of integers
}

// The largest error of act, divided by its tolerance, given gate and up.
__global__ void ActExcess(const bf16* gate, const bf16* up, const bf16* act, size_t n, float* largest) {
  float worst = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const double g = float(gate[i]), expected = g / (1 + exp(-g)) * double(float(up[i]));
    KeepLarger(worst, float(fabs(float(act[i]) - expected) / (fabs(expected) / 256 + 1e-30)));
  }
  KeepLargest(largest, worst);
}

// The largest difference divided by its tolerance. Sums in another order may round to the next bf16, which SwiGLU
// enlarges. Wrong places differ far more than that.
__global__ void Difference(const bf16* got, const bf16* expected, size_t n, float absolute, float* largest) {
  float worst = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const float e = float(expected[i]);
    KeepLarger(worst, fabsf(float(got[i]) - e) / (fabsf(e) / 32 + absolute));
  }
  KeepLargest(largest, worst);
}

static float Largest(const std::function<void(float*)>& launch) {
  Buffer<float> largest(1);
  Check(cudaMemset(largest.data(), 0, sizeof(float)), "clear a maximum");
  launch(largest.data());
  Check(cudaGetLastError(), "launch a comparison");
  return Fetch(largest.data());
}

static double SumDeviation(const Shape& s) { return kWeight * std::sqrt(double(s.width)); }

struct Checker {
  const Shape& s;
  const Operands& o;
  const char* direction;
  std::string program;

  // `error` is relative to f64, and `difference` to the unfused program; each is divided by its tolerance.
  void Print(const char* result, float error, float difference) const {
    const bool wrong = !(error <= 1) || !(difference <= 1);
    g_wrong |= wrong;
    std::printf(
        "{\"probe\":\"swiglu_check\",\"model\":\"%s\",\"rows\":%d,\"direction\":\"%s\",\"program\":\"%s\","
        "\"result\":\"%s\",\"error\":%.3g,\"difference\":%.3g,\"wrong\":%s}\n",
        s.model, s.rows, direction, program.c_str(), result, error, difference, wrong ? "true" : "false");
    std::fflush(stdout);
  }
  float DifferenceOf(const Buffer<bf16>& got, const Buffer<bf16>& expected) const {
    return Largest([&](float* out) {
      Difference<<<1024, 256>>>(got.data(), expected.data(), got.size(), float(0.02 * SumDeviation(s)), out);
    });
  }
  void Product(const char* result, const ProductShape& shape, const Buffer<bf16>& a, const Buffer<bf16>& b,
               const Buffer<bf16>& got, const Buffer<bf16>& expected) const {
    const Errors errors = Compare(shape, a.data(), b.data(), got.data(), 1, kWeight, 2e-3);
    Print(result, errors.excess, DifferenceOf(got, expected));
  }
  void Act(const Buffer<bf16>& gate, const Buffer<bf16>& up, const Buffer<bf16>& act) const {
    const float error =
        Largest([&](float* out) { ActExcess<<<1024, 256>>>(gate.data(), up.data(), act.data(), act.size(), out); });
    Print("act", error, DifferenceOf(act, o.act));
  }
  // Compares 61 elements of dgate or dup. da and the result are rounded to bf16.
  void Gradient(bool of_gate, const Buffer<bf16>& got, const Buffer<bf16>& expected) const {
    const ProductShape shape = Down(s);
    Buffer<double> sum(1);
    float excess = 0;
    for (uint32_t i = 0; i < 61; ++i) {
      const int column = int(Mix(2 * i) % uint32_t(s.hidden)), row = int(Mix(2 * i + 1) % uint32_t(s.rows));
      const size_t at = column + size_t(row) * s.hidden;
      double da = 0;
      Check(cudaMemset(sum.data(), 0, sizeof(double)), "clear a sum");
      Reference<<<1, 256>>>(shape, o.w_down.data(), o.dy.data(), column, row, sum.data());
      Check(cudaMemcpy(&da, sum.data(), sizeof da, cudaMemcpyDeviceToHost), "fetch a reference");
      const double gate = Fetch(o.gate.data() + at), sigmoid = 1 / (1 + std::exp(-gate));
      const double factor = of_gate ? Fetch(o.up.data() + at) * sigmoid * (1 + gate * (1 - sigmoid)) : gate * sigmoid;
      const double tolerance = std::abs(da * factor) / 128 + 2e-3 * SumDeviation(s) * std::abs(factor) + 1e-30;
      excess = std::max(excess, Excess(Fetch(got.data() + at), da * factor, tolerance));
    }
    Print(of_gate ? "dgate" : "dup", excess, DifferenceOf(got, expected));
  }
};

// Runs each program once and checks what it writes. The first one's results are those that others are compared with.
static void CheckForward(const Bench& bench, const Shape& s, Operands& o, const std::vector<Program>& programs) {
  for (const Program& p : programs) {
    const Checker check{s, o, "forward", p.name};
    const bool own = p.name.starts_with("fused") || p.name.starts_with("own"), both = p.name.starts_with("one");
    o.PoisonOwn();
    p.launch();
    Check(cudaStreamSynchronize(bench.stream), "run " + p.name);
    if (!both) {
      const Buffer<bf16>&gate = own ? o.own_gate : o.gate, &up = own ? o.own_up : o.up;
      check.Product("gate", Up(s, s.hidden), o.w_gate, o.x, gate, o.gate);
      check.Product("up", Up(s, s.hidden), o.w_up, o.x, up, o.up);
      if (p.name.starts_with("fused") || &p == &programs[0]) check.Act(gate, up, own ? o.own_act : o.act);
    } else if (&p == &programs[1]) {
      check.Print("act", 0, check.DifferenceOf(o.own_act, o.act));
    }
  }
}

static void CheckBackward(const Bench& bench, const Shape& s, Operands& o, const std::vector<Program>& programs) {
  for (const Program& p : programs) {
    const Checker check{s, o, "backward", p.name};
    const bool own = p.name.starts_with("own"), fused = p.name.starts_with("fused");
    o.PoisonOwn();
    p.launch();
    Check(cudaStreamSynchronize(bench.stream), "run " + p.name);
    if (!fused) check.Product("da", Down(s), o.w_down, o.dy, own ? o.own_da : o.da, o.da);
    if (!fused && &p != &programs[0]) continue;
    check.Gradient(true, fused ? o.own_dgate : o.dgate, o.dgate);
    check.Gradient(false, fused ? o.own_dup : o.dup, o.dup);
  }
}

// ---- timing ----

static void PrintTimes(const Shape& s, const char* direction, const Program& p, double flop) {
  Settled mean, least = p.runs[0], most = p.runs[0];
  for (const Settled& r : p.runs) {
    const double part = 1. / double(p.runs.size());
    mean = {mean.ms + part * r.ms, mean.mhz + part * r.mhz, mean.watts + part * r.watts};
    least.ms = std::min(least.ms, r.ms), most.ms = std::max(most.ms, r.ms);
  }
  std::printf(
      "{\"probe\":\"swiglu\",\"model\":\"%s\",\"rows\":%d,\"width\":%d,\"hidden\":%d,\"direction\":\"%s\","
      "\"program\":\"%s\",\"ms\":%.4f,\"min_ms\":%.4f,\"max_ms\":%.4f,\"tflop_s\":%.1f,\"mhz\":%.0f,\"watts\":%.0f}\n",
      s.model, s.rows, s.width, s.hidden, direction, p.name.c_str(), mean.ms, least.ms, most.ms, flop / mean.ms * 1e-9,
      mean.mhz, mean.watts);
  std::fflush(stdout);
}

static void Time(Bench& bench, const Shape& s, const char* direction, std::vector<Program>& programs, double flop) {
  const int batch = std::max(1, int(20 / MedianMs(bench.stream, 3, programs[0].launch)));
  RunFor(bench, kHeat, batch, programs[0].launch);
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < programs.size(); ++i) {
      Program& p = programs[pass == 0 ? i : programs.size() - 1 - i];
      RunFor(bench, kSettle, batch, p.launch);
      p.runs.push_back(RunFor(bench, kSeconds, batch, p.launch));
    }
  for (const Program& p : programs) PrintTimes(s, direction, p, flop);
}

static void Measure(Bench& bench, const Shape& s, int only) {
  Operands operands(s);
  const double flop = 2. * s.rows * s.width * s.hidden;
  std::vector<Program> forward = ForwardPrograms(bench, s, operands, only);
  CheckForward(bench, s, operands, forward);
  Time(bench, s, "forward", forward, 2 * flop);
  std::vector<Program> backward = BackwardPrograms(bench, s, operands, only);
  CheckBackward(bench, s, operands, backward);
  Time(bench, s, "backward", backward, flop);
}

// swiglu [all | 1b | 8b | 8b_half] [1 | 2]: with a number, only the fused kernels on single blocks or on pairs
int main(int argc, char** argv) try {
  const std::string model = argc > 1 ? argv[1] : "all";
  const int only = argc > 2 ? std::atoi(argv[2]) : 0;
  if (model != "all" && model != "1b" && model != "8b" && model != "8b_half")
    throw std::runtime_error("measures all, 1b, 8b or 8b_half, got " + model);
  std::printf("{\"probe\":\"versions\",%s,\"cublaslt\":%zu}\n", DeviceLine().c_str(), cublasLtGetVersion());
  Check(cudaHostAlloc(&g_report, sizeof *g_report, cudaHostAllocMapped), "allocate a report");
  *g_report = {-1, -1, -1, -1};
  Bench bench;
  if (model == "all" || model == "1b") Measure(bench, {"llama 1b", 16384, 2048, 8192}, only);
  if (model == "all" || model == "8b") Measure(bench, {"llama 8b, tp 4", 16384, 4096, 3584}, only);
  if (model == "all" || model == "8b_half") Measure(bench, {"llama 8b, tp 4", 8192, 4096, 3584}, only);
  return g_wrong;
} catch (const std::exception& e) {
  std::fprintf(stderr, "swiglu: %s\n", e.what());
  if (g_report && g_report->x >= 0)
    std::fprintf(stderr, "swiglu: a wait did not end: warp %d (0 copies), block %d, tile %d, term %d\n", g_report->x,
                 g_report->y, g_report->z, g_report->w);
  return 1;
}
