// Probe: whether cuBLASLt's products with more in their epilogue beat products and a kernel after them, at the clocks
// of a training step.
//   forward:  h = x W + b, a = gelu(h)            with W [K, F]; both are stored
//   backward: dh = (dy V^T) gelu'(h)              with V [F, K]
//   weight:   dW = x^T dh, db = sum of dh's rows  in f32
// For each shape and direction it compares all elements of both programs' results, but for dW, and times the programs
// in turn, A B B A. A wrong result is printed as such and makes the exit code 1.
#include <memory>

#include "settled.h"

constexpr double kHeat = 1, kSettle = 0.1, kSeconds = 0.4;
static bool g_wrong = false;

struct Shape {
  const char* model;
  int rows, width, hidden;
  size_t Count() const { return size_t(rows) * hidden; }
};

struct Operands {
  explicit Operands(const Shape& s)
      : x(size_t(s.rows) * s.width, 1),
        w(size_t(s.width) * s.hidden, 2, 0, 0.02f),
        bias(s.hidden, 3, 0, 0.02f),
        h(s.Count(), 4),
        out(s.Count()),
        own_h(s.Count()),
        own_out(s.Count()),
        dw(w.size()),
        db(s.hidden),
        own_db(s.hidden) {}
  Buffer<bf16> x, w, bias, h, out, own_h, own_out;
  Buffer<float> dw, db, own_db;
};

// ---- GELU by a kernel, 8 elements per thread (Hendrycks and Gimpel, arXiv:1606.08415, by tanh) ----

constexpr float kScale = 0.7978845608f, kCube = 0.044715f;  // sqrt(2 / pi)

__device__ inline float Tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float Gelu(float x) { return 0.5f * x * (1 + Tanh(kScale * (x + kCube * x * x * x))); }
__device__ inline float GeluSlope(float x) {
  const float t = Tanh(kScale * (x + kCube * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kScale * (1 + 3 * kCube * x * x);
}

template <bool kForward>
__global__ void Apply(const uint4* h, const uint4* d, uint4* out, uint32_t vectors) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  uint4 v = h[i], g = kForward ? v : d[i];
  auto* x = reinterpret_cast<bf16*>(&v);
  auto* y = reinterpret_cast<bf16*>(&g);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const float f = float(x[e]);
    y[e] = bf16(kForward ? Gelu(f) : float(y[e]) * GeluSlope(f));
  }
  out[i] = g;
}

template <bool kForward>
static void LaunchGelu(const Bench& bench, const Shape& s, const bf16* h, const bf16* d, bf16* out) {
  const uint32_t vectors = uint32_t(s.Count() / 8);
  const auto in = [](const bf16* p) { return reinterpret_cast<const uint4*>(p); };
  Apply<kForward>
      <<<(vectors + 255) / 256, 256, 0, bench.stream>>>(in(h), in(d), reinterpret_cast<uint4*>(out), vectors);
  Check(cudaGetLastError(), "launch GELU");
}

// ---- sums of rows ----

// Adds the rows of [rows, columns] to `out`, 2 columns per thread and 256 rows per block.
__global__ void AddRows(const __nv_bfloat162* x, uint32_t rows, uint32_t pairs, float* out) {
  const uint32_t pair = blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= pairs) return;
  float2 sum = {0, 0};
  for (uint32_t r = blockIdx.y * 256; r < min(rows, (blockIdx.y + 1) * 256); ++r) {
    const float2 v = __bfloat1622float2(x[size_t(r) * pairs + pair]);
    sum = {sum.x + v.x, sum.y + v.y};
  }
  atomicAdd(out + 2 * pair, sum.x), atomicAdd(out + 2 * pair + 1, sum.y);
}

static void LaunchSums(const Bench& bench, const Shape& s, const Operands& o) {
  Check(cudaMemsetAsync(o.db.data(), 0, s.hidden * sizeof(float), bench.stream), "clear sums");
  const dim3 grid((s.hidden / 2 + 127) / 128, (s.rows + 255) / 256);
  AddRows<<<grid, 128, 0, bench.stream>>>(reinterpret_cast<const __nv_bfloat162*>(o.h.data()), s.rows, s.hidden / 2,
                                          o.db.data());
  Check(cudaGetLastError(), "launch sums");
}

// ---- programs ----

struct Program {
  const char* name;
  std::function<void()> launch;
  const Buffer<bf16>* out;
  std::vector<Settled> runs = {};
};

// Returns the launch of a product by the candidate that is the fastest in bursts. Row-major results are column-major
// products with the operands exchanged.
static std::function<void()> ProductOf(const Bench& bench, const Shape& s, const Operands& o, bool forward,
                                       cublasLtEpilogue_t epilogue, const Buffer<bf16>* auxiliary,
                                       const Buffer<bf16>& out) {
  ProductShape shape{.m = s.hidden, .n = s.rows, .k = s.width, .candidates = kMostCandidates};
  if (!forward) shape.op_a = CUBLAS_OP_T;
  shape.epilogue = epilogue;
  if (forward) shape.bias = o.bias.data();
  if (auxiliary) shape.auxiliary = auxiliary->data();
  auto product = std::make_shared<Product>(bench.cublas, shape);
  uint8_t* workspace = bench.workspace.data();
  product->Choose(Fastest(BurstsMs(*product, o.w.data(), o.x.data(), out.data(), workspace, bench.stream)));
  return [=, stream = bench.stream, a = o.w.data(), b = o.x.data(), c = out.data()] {
    product->Run(a, b, c, workspace, stream);
  };
}

static std::vector<Program> ForwardPrograms(const Bench& bench, const Shape& s, const Operands& o) {
  const auto plain = ProductOf(bench, s, o, true, CUBLASLT_EPILOGUE_BIAS, nullptr, o.h);
  const auto fused = ProductOf(bench, s, o, true, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, &o.own_h, o.own_out);
  const auto gelu = [&bench, &o, s] { LaunchGelu<true>(bench, s, o.h.data(), nullptr, o.out.data()); };
  return {
      {"product, gelu", [=] { plain(), gelu(); }, &o.out}, {"fused", fused, &o.own_out}, {"product", plain, nullptr}};
}

static std::vector<Program> BackwardPrograms(const Bench& bench, const Shape& s, const Operands& o) {
  const auto plain = ProductOf(bench, s, o, false, CUBLASLT_EPILOGUE_DEFAULT, nullptr, o.own_h);
  const auto fused = ProductOf(bench, s, o, false, CUBLASLT_EPILOGUE_DGELU, &o.h, o.own_out);
  const auto gelu = [&bench, &o, s] { LaunchGelu<false>(bench, s, o.h.data(), o.own_h.data(), o.out.data()); };
  return {{"product, gelu_grad", [=] { plain(), gelu(); }, &o.out},
          {"fused", fused, &o.own_out},
          {"product", plain, nullptr}};
}

static std::vector<Program> WeightPrograms(const Bench& bench, const Shape& s, const Operands& o) {
  const auto product_of = [&](cublasLtEpilogue_t epilogue) -> std::function<void()> {
    ProductShape shape{.m = s.hidden,
                       .n = s.width,
                       .k = s.rows,
                       .op_b = CUBLAS_OP_T,
                       .type_of_c = CUDA_R_32F,
                       .candidates = kMostCandidates};
    shape.epilogue = epilogue;
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) shape.bias = o.own_db.data();
    auto product = std::make_shared<Product>(bench.cublas, shape);
    uint8_t* workspace = bench.workspace.data();
    product->Choose(Fastest(BurstsMs(*product, o.h.data(), o.x.data(), o.dw.data(), workspace, bench.stream)));
    return [=, stream = bench.stream, a = o.h.data(), b = o.x.data(), c = o.dw.data()] {
      product->Run(a, b, c, workspace, stream);
    };
  };
  const auto plain = product_of(CUBLASLT_EPILOGUE_DEFAULT), fused = product_of(CUBLASLT_EPILOGUE_BGRADA);
  const auto sums = [&bench, &o, s] { LaunchSums(bench, s, o); };
  return {{"product, sums", [=] { plain(), sums(); }, nullptr},
          {"fused", fused, nullptr},
          {"product", plain, nullptr},
          {"sums", sums, nullptr}};
}

// ---- checking and timing ----

// The largest difference divided by its tolerance: both round the product, one of them twice.
__global__ void Difference(const bf16* got, const bf16* expected, size_t n, float absolute, float* largest) {
  float worst = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const float e = float(expected[i]), excess = fabsf(float(got[i]) - e) / (fabsf(e) / 32 + absolute);
    worst = fmaxf(worst, excess <= 1e9f ? excess : 1e9f);  // NaN counts as 1e9
  }
  atomicMax(reinterpret_cast<int*>(largest), __float_as_int(worst));
}

static void CheckSums(const Bench& bench, const Shape& s, const Operands& o, std::vector<Program>& programs) {
  for (int i = 0; i < 2; ++i) programs[size_t(i)].launch();
  Check(cudaStreamSynchronize(bench.stream), "run the programs");
  std::vector<float> want(s.hidden), got(s.hidden);
  const auto fetch = [&](const Buffer<float>& from, std::vector<float>& to) {
    Check(cudaMemcpy(to.data(), from.data(), to.size() * sizeof(float), cudaMemcpyDeviceToHost), "fetch sums");
  };
  fetch(o.db, want), fetch(o.own_db, got);
  float worst = 0;
  for (size_t i = 0; i < want.size(); ++i)
    worst =
        std::max(worst, std::abs(got[i] - want[i]) / (1e-4f * std::sqrt(float(s.rows)) + 1e-4f * std::abs(want[i])));
  g_wrong |= !(worst <= 1);
  std::printf("{\"probe\":\"epilogues_check\",\"model\":\"%s\",\"direction\":\"weight\",\"difference\":%.3g}\n",
              s.model, worst);
}

static void CheckFused(const Bench& bench, const Shape& s, const char* direction, std::vector<Program>& programs) {
  for (int i = 0; i < 2; ++i) programs[size_t(i)].launch();
  Check(cudaStreamSynchronize(bench.stream), "run the programs");
  Buffer<float> largest(1);
  Check(cudaMemset(largest.data(), 0, sizeof(float)), "clear a maximum");
  Difference<<<1024, 256>>>(programs[1].out->data(), programs[0].out->data(), s.Count(), 0.01f, largest.data());
  const float excess = Fetch(largest.data());
  const bool wrong = !(excess <= 1);
  g_wrong |= wrong;
  std::printf(
      "{\"probe\":\"epilogues_check\",\"model\":\"%s\",\"direction\":\"%s\",\"difference\":%.3g,\"wrong\":%s}\n",
      s.model, direction, excess, wrong ? "true" : "false");
}

static void Time(Bench& bench, const Shape& s, const char* direction, std::vector<Program>& programs) {
  const int batch = std::max(1, int(20 / MedianMs(bench.stream, 3, programs[0].launch)));
  RunFor(bench, kHeat, batch, programs[0].launch);
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < programs.size(); ++i) {
      Program& p = programs[pass == 0 ? i : programs.size() - 1 - i];
      RunFor(bench, kSettle, batch, p.launch);
      p.runs.push_back(RunFor(bench, kSeconds, batch, p.launch));
    }
  for (const Program& p : programs)
    std::printf(
        "{\"probe\":\"epilogues\",\"model\":\"%s\",\"rows\":%d,\"width\":%d,\"hidden\":%d,\"direction\":\"%s\","
        "\"program\":"
        "\"%s\",\"ms\":[%.4f,%.4f],\"mhz\":%.0f,\"watts\":%.0f}\n",
        s.model, s.rows, s.width, s.hidden, direction, p.name, p.runs[0].ms, p.runs[1].ms, p.runs[0].mhz,
        p.runs[0].watts);
  std::fflush(stdout);
}

static void Measure(Bench& bench, const Shape& s, const std::string& direction) {
  Operands operands(s);
  const bool forward = direction == "forward", weight = direction == "weight";
  std::vector<Program> programs = weight    ? WeightPrograms(bench, s, operands)
                                  : forward ? ForwardPrograms(bench, s, operands)
                                            : BackwardPrograms(bench, s, operands);
  if (weight)
    CheckSums(bench, s, operands, programs);
  else
    CheckFused(bench, s, direction.c_str(), programs);
  Time(bench, s, direction.c_str(), programs);
}

// epilogues [forward | backward | weight]: all without a word
int main(int argc, char** argv) try {
  const std::string only = argc > 1 ? argv[1] : "all";
  if (only != "all" && only != "forward" && only != "backward" && only != "weight")
    throw std::runtime_error("measures forward, backward, weight or all, got " + only);
  std::printf("{\"probe\":\"versions\",%s,\"cublaslt\":%zu}\n", DeviceLine().c_str(), cublasLtGetVersion());
  Bench bench;
  for (const Shape& s : {Shape{"gpt2_124m, 64 x 1024", 65536, 768, 3072},
                         {"gpt2_124m, 64 x 1024, down", 65536, 3072, 768},
                         {"gpt2_124m, 8 x 1024", 8192, 768, 3072},
                         {"gpt2_1558m, 16 x 1024", 16384, 1600, 6400}})
    for (const char* direction : {"forward", "backward", "weight"})
      if (only == "all" || only == direction) Measure(bench, s, direction);
  return g_wrong;
} catch (const std::exception& e) {
  std::fprintf(stderr, "epilogues: %s\n", e.what());
  return 1;
}
