// Probe: causal bf16 attention, forward with LSE and backward, through cuDNN's graph API. Prints one JSON line per
// check (relative error against f64 on the host) and per timed shape (B, H, S, D).
#include <cudnn.h>

#include <cstring>  // cudnn_frontend 1.32 calls std::strlen without it

#include <cudnn_frontend.h>

#include <chrono>
#include <cstdio>
#include <unordered_map>

#include "probe.h"

namespace fe = cudnn_frontend;
using bf16 = __nv_bfloat16;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

struct Shape {
  int64_t B, H, Hkv, S, D;
  bool token_major;    // memory order B S H D, as after a fused QKV product, instead of B H S D
  bool deterministic;  // whether the backward pass is deterministic
  double ForwardFlops() const { return 2.0 * B * H * S * S * D; }  // 4 B H S S D, halved by the causal mask
  std::string Json() const {
    return "\"B\":" + std::to_string(B) + ",\"H\":" + std::to_string(H) + ",\"Hkv\":" + std::to_string(Hkv) +
           ",\"S\":" + std::to_string(S) + ",\"D\":" + std::to_string(D) +
           ",\"layout\":" + (token_major ? "\"BSHD\"" : "\"BHSD\"") +
           ",\"deterministic\":" + (deterministic ? "true" : "false");
  }
};

enum Uid : int64_t { kQ = 1, kK, kV, kO, kStats, kGradO, kGradQ, kGradK, kGradV };
using Pointers = std::unordered_map<int64_t, void*>;

static void Check(fe::error_t status, const char* what) {
  if (status.is_bad()) throw std::runtime_error(std::string(what) + ": " + status.get_message());
}
static void Check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}

static std::vector<int64_t> Strides(const Shape& s, int64_t heads) {
  if (s.token_major) return {s.S * heads * s.D, s.D, heads * s.D, 1};
  return {heads * s.S * s.D, s.S * s.D, s.D, 1};
}

static fe::graph::Tensor_attributes Described(const Shape& s, int64_t heads, Uid uid) {
  return fe::graph::Tensor_attributes().set_uid(uid).set_dim({s.B, heads, s.S, s.D}).set_stride(Strides(s, heads));
}

static void MarkOutput(const Tensor& t, const Shape& s, int64_t heads, Uid uid) {
  t->set_output(true).set_uid(uid).set_dim({s.B, heads, s.S, s.D}).set_stride(Strides(s, heads));
}

// LSE is [B, H, S, 1] in f32, dense.
static fe::graph::Tensor_attributes Stats(const Shape& s) {
  return fe::graph::Tensor_attributes()
      .set_uid(kStats)
      .set_dim({s.B, s.H, s.S, 1})
      .set_stride({s.H * s.S, s.S, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

// One executable plan with its workspace, and what it cost to build.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const std::function<void(fe::graph::Graph&)>& describe) : handle_(handle) {
    const auto start = std::chrono::steady_clock::now();
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16);
    graph_.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    describe(graph_);
    Check(graph_.build(handle, {fe::HeurMode_t::A}), "build a cuDNN plan");
    build_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    Check(graph_.get_workspace_size(workspace_bytes_), "ask for the workspace");
    workspace_ = std::make_unique<Buffer<uint8_t>>(std::max<int64_t>(workspace_bytes_, 1));
  }
  void Run(Pointers& pointers) { Check(graph_.execute(handle_, pointers, workspace_->data()), "execute a cuDNN plan"); }
  std::string Json(const char* name) const {
    const std::string n(name);
    return "\"" + n + "_build_ms\":" + std::to_string(build_ms_) + ",\"" + n +
           "_workspace\":" + std::to_string(workspace_bytes_);
  }

 private:
  cudnnHandle_t handle_;
  fe::graph::Graph graph_;
  double build_ms_ = 0;
  int64_t workspace_bytes_ = 0;
  std::unique_ptr<Buffer<uint8_t>> workspace_;
};

static void DescribeForward(fe::graph::Graph& graph, const Shape& s) {
  auto options = fe::graph::SDPA_attributes().set_name("forward").set_generate_stats(true);
  options.set_attn_scale(1.f / std::sqrt(float(s.D)));
  options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  auto q = graph.tensor(Described(s, s.H, kQ));
  auto k = graph.tensor(Described(s, s.Hkv, kK)), v = graph.tensor(Described(s, s.Hkv, kV));
  auto [o, stats] = graph.sdpa(q, k, v, options);
  MarkOutput(o, s, s.H, kO);
  stats->set_output(true).set_uid(kStats).set_data_type(fe::DataType_t::FLOAT);
  stats->set_dim({s.B, s.H, s.S, 1}).set_stride({s.H * s.S, s.S, 1, 1});
}

static void DescribeBackward(fe::graph::Graph& graph, const Shape& s) {
  auto options = fe::graph::SDPA_backward_attributes().set_name("backward");
  options.set_attn_scale(1.f / std::sqrt(float(s.D))).set_deterministic_algorithm(s.deterministic);
  options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  auto q = graph.tensor(Described(s, s.H, kQ));
  auto k = graph.tensor(Described(s, s.Hkv, kK)), v = graph.tensor(Described(s, s.Hkv, kV));
  auto o = graph.tensor(Described(s, s.H, kO)), grad_o = graph.tensor(Described(s, s.H, kGradO));
  auto stats = graph.tensor(Stats(s));
  auto [grad_q, grad_k, grad_v] = graph.sdpa_backward(q, k, v, o, grad_o, stats, options);
  MarkOutput(grad_q, s, s.H, kGradQ);
  MarkOutput(grad_k, s, s.Hkv, kGradK);
  MarkOutput(grad_v, s, s.Hkv, kGradV);
}

// The tensors of one attention. Inputs are random, and outputs are poisoned.
struct Operands {
  explicit Operands(const Shape& s)
      : q(Count(s, s.H), 1),
        k(Count(s, s.Hkv), 2),
        v(Count(s, s.Hkv), 3),
        grad_o(Count(s, s.H), 4),
        o(Count(s, s.H)),
        grad_q(Count(s, s.H)),
        grad_k(Count(s, s.Hkv)),
        grad_v(Count(s, s.Hkv)),
        stats(s.B * s.H * s.S) {}
  static size_t Count(const Shape& s, int64_t heads) { return size_t(s.B) * heads * s.S * s.D; }
  Pointers Map() const {
    return {{kQ, q.data()},          {kK, k.data()},          {kV, v.data()},
            {kO, o.data()},          {kGradO, grad_o.data()}, {kGradQ, grad_q.data()},
            {kGradK, grad_k.data()}, {kGradV, grad_v.data()}, {kStats, stats.data()}};
  }
  Buffer<bf16> q, k, v, grad_o, o, grad_q, grad_k, grad_v;
  Buffer<float> stats;
};

// Attention by its definition, in f64, one head after the other.
struct Reference {
  std::vector<double> o, stats, grad_q, grad_k, grad_v;
};
struct HostInputs {
  std::vector<float> q, k, v, grad_o;
};

// Returns where row r of head h of batch b begins, in a tensor of `heads` heads.
static size_t Row(const Shape& s, int64_t heads, int64_t b, int64_t h, int64_t r) {
  return s.token_major ? ((b * s.S + r) * heads + h) * s.D : ((b * heads + h) * s.S + r) * s.D;
}

static double Dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(a[i]) * b[i];
  return sum;
}

// Adds query i of head (b, h): its rows of O, LSE and dQ, and its part of dK and dV.
static void AddQuery(Reference& r, const Shape& s, const HostInputs& x, int64_t b, int64_t h, int64_t i) {
  const int64_t group = h / (s.H / s.Hkv);
  const size_t qi = Row(s, s.H, b, h, i);
  const auto key = [&](int64_t j) { return Row(s, s.Hkv, b, group, j); };
  const double scale = 1 / std::sqrt(double(s.D));
  std::vector<double> p(i + 1);
  double sum = 0, delta = 0;  // delta is the row's sum of dO * O
  for (int64_t j = 0; j <= i; ++j) sum += p[j] = std::exp(scale * Dot(&x.q[qi], &x.k[key(j)], s.D));
  for (int64_t j = 0; j <= i; ++j) delta += (p[j] /= sum) * Dot(&x.grad_o[qi], &x.v[key(j)], s.D);
  r.stats[(b * s.H + h) * s.S + i] = std::log(sum);
  for (int64_t j = 0; j <= i; ++j) {
    const size_t kj = key(j);
    const double ds = p[j] * (Dot(&x.grad_o[qi], &x.v[kj], s.D) - delta) * scale;
    for (int64_t d = 0; d < s.D; ++d) {
      r.o[qi + d] += p[j] * x.v[kj + d];
      r.grad_v[kj + d] += p[j] * x.grad_o[qi + d];
      r.grad_q[qi + d] += ds * x.k[kj + d];
      r.grad_k[kj + d] += ds * x.q[qi + d];
    }
  }
}

static Reference Expected(const Shape& s, const Operands& operands) {
  const HostInputs x{operands.q.Host(), operands.k.Host(), operands.v.Host(), operands.grad_o.Host()};
  const std::vector<double> queries(x.q.size()), keys(x.k.size()), rows(s.B * s.H * s.S);
  Reference r{queries, rows, queries, keys, keys};
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.S; ++i) AddQuery(r, s, x, b, h, i);
  return r;
}

static void CheckShape(cudnnHandle_t handle, const Shape& s) {
  Operands x(s);
  Plan forward(handle, [&](auto&g) { DescribeForward(g, s); }),
      backward(handle, [&](auto&g) { DescribeBackward(g, s); });
  Pointers pointers = x.Map();
  forward.Run(pointers);
  backward.Run(pointers);
  Check(cudaDeviceSynchronize(), "run the checked attention");
  const Reference r = Expected(s, x);
  std::printf("{\"probe\":\"cudnn_attention_check\",%s,\"o\":%.2e,\"lse\":%.2e,\"dq\":%.2e,\"dk\":%.2e,\"dv\":%.2e}\n",
              s.Json().c_str(), RelativeError(x.o.Host(), r.o), RelativeError(x.stats.Host(), r.stats),
              RelativeError(x.grad_q.Host(), r.grad_q), RelativeError(x.grad_k.Host(), r.grad_k),
              RelativeError(x.grad_v.Host(), r.grad_v));
}

static void TimeShape(cudnnHandle_t handle, cudaStream_t stream, const Shape& s) {
  Operands x(s);
  Plan forward(handle, [&](auto&g) { DescribeForward(g, s); }),
      backward(handle, [&](auto&g) { DescribeBackward(g, s); });
  Pointers pointers = x.Map();
  const float forward_ms = MedianMs(stream, 30, [&] { forward.Run(pointers); });
  const float backward_ms = MedianMs(stream, 30, [&] { backward.Run(pointers); });
  cudaGraphExec_t graph = Capture(stream, [&] { forward.Run(pointers), backward.Run(pointers); });
  const float graph_ms = MedianMs(stream, 30, [&] { Check(cudaGraphLaunch(graph, stream), "replay cuDNN's plans"); });
  Check(cudaGraphExecDestroy(graph), "destroy a graph");
  const double flops = s.ForwardFlops();
  std::printf(
      "{\"probe\":\"cudnn_attention\",%s,\"forward_ms\":%.3f,\"forward_tflops\":%.0f,\"backward_ms\":%.3f,"
      "\"backward_tflops\":%.0f,\"graph_ms\":%.3f,%s,%s}\n",
      s.Json().c_str(), forward_ms, flops / forward_ms * 1e-9, backward_ms, 2.5 * flops / backward_ms * 1e-9, graph_ms,
      forward.Json("forward").c_str(), backward.Json("backward").c_str());
}

// If a shape fails, prints the error, so that the other shapes still run.
static int Guarded(const Shape& s, const std::function<void()>& body) try {
  body();
  std::fflush(stdout);
  return 0;
} catch (const std::exception& e) {
  std::printf("{\"probe\":\"cudnn_attention_error\",%s,\"what\":\"%s\"}\n", s.Json().c_str(), e.what());
  return 1;
}

int main() try {
  cudnnHandle_t handle;
  cudaStream_t stream;
  std::printf("{\"probe\":\"versions\",%s,\"cudnn\":%zu,\"cudnn_headers\":%d,\"cudnn_frontend\":%d}\n",
              DeviceLine().c_str(), cudnnGetVersion(), CUDNN_VERSION, CUDNN_FRONTEND_VERSION);
  Check(cudnnCreate(&handle), "create a cuDNN handle");
  Check(cudaStreamCreate(&stream), "create a stream");  // blocking, so it runs after the default stream's fills
  Check(cudnnSetStream(handle, stream), "set cuDNN's stream");
  int failures = 0;
  for (const Shape& s : {Shape{2, 4, 4, 256, 64, false, false}, Shape{1, 4, 4, 200, 128, true, false},
                         Shape{2, 4, 2, 256, 128, false, false}, Shape{1, 4, 1, 384, 128, true, true}})
    failures += Guarded(s, [&] { CheckShape(handle, s); });
  for (const Shape& s : {Shape{64, 12, 12, 1024, 64, false, false}, Shape{64, 12, 12, 1024, 64, true, false},
                         Shape{4, 32, 32, 4096, 128, false, false}, Shape{2, 32, 32, 8192, 128, false, false},
                         Shape{2, 32, 32, 8192, 128, false, true}, Shape{2, 32, 32, 8192, 128, true, false},
                         Shape{2, 32, 8, 8192, 128, true, false}})
    failures += Guarded(s, [&] { TimeShape(handle, stream, s); });
  Check(cudnnDestroy(handle), "destroy the cuDNN handle");
  return failures;
} catch (const std::exception& e) {
  std::fprintf(stderr, "cudnn_attention: %s\n", e.what());
  return 1;
}
