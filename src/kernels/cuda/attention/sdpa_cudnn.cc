// cuDNN's attention as a backend, through the graphs of cudnn-frontend (header-only, a build-time choice). libcudnn is
// opened when the first call needs it, so a host without it falls back to another backend.
//
// Measured on an H200 with cuDNN 9.19, bf16, causal, 2 x 8192 tokens, 32 heads of 128: 633 TFLOP/s forward, 491 TFLOP/s
// backward. The backward adds up dQ in no fixed order. A deterministic run takes cuDNN's other algorithm, which writes
// the gradient of all scores to its workspace and multiplies that with K. It is slower by a tenth
// (tests/bench/ladder/README.md). Scores of long sequences would take much memory, so it runs in parts, a few heads
// each.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>  // cudnn_frontend 1.32 calls std::strlen without including it
#include <map>

#include <cudnn_frontend.h>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace fe = cudnn_frontend;

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where the frontend looks up cuDNN's functions
}

namespace weft::cuda {
namespace {

enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLse, kGradOut, kGradQ, kGradK, kGradV, kQueries, kKeys };
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

void Require(fe::error_t status) {
  if (status.is_bad()) throw std::runtime_error(status.get_message());
}

// Describes [B, T, H, D] to cuDNN, which orders the dims as [B, H, T, D].
void Describe(fe::graph::Tensor_attributes& t, const TensorView& view, Uid uid) {
  t.set_uid(uid)
      .set_dim({view.dim(0).extent, view.dim(2).extent, view.dim(1).extent, view.dim(3).extent})
      .set_stride({view.dim(0).stride, view.dim(2).stride, view.dim(1).stride, 1});
}
Tensor Input(fe::graph::Graph& graph, const TensorView& view, Uid uid) {
  fe::graph::Tensor_attributes t;
  Describe(t, view, uid);
  return graph.tensor(t);
}
void Output(const Tensor& t, const TensorView& view, Uid uid) {
  t->set_output(true);
  Describe(*t, view, uid);
}

Tensor Lengths(fe::graph::Graph& graph, const SdpaSizes& z, Uid uid) {
  fe::graph::Tensor_attributes t;
  t.set_uid(uid).set_data_type(fe::DataType_t::INT32).set_dim({z.B, 1, 1, 1}).set_stride({1, 1, 1, 1});
  return graph.tensor(t);
}

template <class Options>
void SetScores(fe::graph::Graph& graph, Options& options, const KernelCall& call, const SdpaSizes& z) {
  options.set_attn_scale(float(z.scale));
  if (HasLengths(call))
    options.set_padding_mask(true).set_seq_len_q(Lengths(graph, z, kQueries)).set_seq_len_kv(Lengths(graph, z, kKeys));
  if (MaskOf(z) == SdpaMask::kNone) return;
  options.set_diagonal_alignment(z.T == z.S ? fe::DiagonalAlignment_t::TOP_LEFT
                                            : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
  options.set_diagonal_band_right_bound(0);
  if (int64_t bound = CudnnLeftBound(call, z)) options.set_diagonal_band_left_bound(int(bound));
}

void DescribeForward(fe::graph::Graph& graph, const KernelCall& call, const SdpaSizes& z) {
  auto options = fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(true);
  SetScores(graph, options, call, z);
  Tensor q = Input(graph, call.in[0], kQ), k = Input(graph, call.in[1], kK), v = Input(graph, call.in[2], kV);
  auto [out, lse] = graph.sdpa(q, k, v, options);
  Output(out, call.out[0], kOut);
  const TensorView& y = call.out[1];
  lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
  lse->set_dim({z.B, z.H, z.T, 1}).set_stride({y.dim(0).stride, y.dim(2).stride, y.dim(1).stride, 1});
}

void DescribeBackward(fe::graph::Graph& graph, const KernelCall& call, const SdpaSizes& z) {
  auto options = fe::graph::SDPA_backward_attributes().set_name("sdpa_grad");
  options.set_deterministic_algorithm(IsDeterministic(call));
  SetScores(graph, options, call, z);
  Tensor q = Input(graph, call.in[0], kQ), k = Input(graph, call.in[1], kK), v = Input(graph, call.in[2], kV);
  Tensor out = Input(graph, call.in[3], kOut), dout = Input(graph, call.in[5], kGradOut);
  // cuDNN before 9.26 reads lse as if it were dense, whatever its strides.
  fe::graph::Tensor_attributes lse;
  lse.set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
  lse.set_dim({z.B, z.H, z.T, 1}).set_stride({int64_t(z.H) * z.T, z.T, 1, 1});
  auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, dout, graph.tensor(lse), options);
  Output(dq, call.out[0], kGradQ);
  Output(dk, call.out[1], kGradK);
  Output(dv, call.out[2], kGradV);
}

// cuDNN's plan for calls of one shape. Building one takes about 40 ms.
struct Plan {
  fe::graph::Graph graph;
  int64_t workspace = 0;
  std::string failure;  // why there is no plan; empty if there is one

  Plan(cudnnHandle_t handle, const KernelCall& call, const SdpaSizes& z) {
    try {
      Build(handle, call, z);
    } catch (const std::exception& e) {
      failure = fmt::format("it has no plan for this call: {}", e.what());
    }
  }

 private:
  void Build(cudnnHandle_t handle, const KernelCall& call, const SdpaSizes& z) {
    bool bf16 = call.in[0].dtype == DType::kBF16;
    graph.set_io_data_type(bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF);
    graph.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    (IsSdpaGrad(call) ? DescribeBackward : DescribeForward)(graph, call, z);
    Require(graph.build(handle, {fe::HeurMode_t::A}));
    Require(graph.get_workspace_size(workspace));
  }
};

// Calls with equal keys share a plan.
using Key = std::vector<int64_t>;
Key KeyOf(const KernelCall& call, const SdpaSizes& z) {
  bool deterministic = IsSdpaGrad(call) && IsDeterministic(call);
  Key key{int64_t(call.in[0].dtype), int64_t(MaskOf(z)), std::bit_cast<int64_t>(z.scale), z.S, z.G, deterministic,
          CudnnLeftBound(call, z),   HasLengths(call)};
  for (std::span<const TensorView> views : {call.in, call.out})
    for (const TensorView& view : views)
      for (int i = 0; i < view.rank; i++) key.insert(key.end(), {view.dim(i).extent, view.dim(i).stride});
  return key;
}

// Opens libcudnn once per process. It is never closed, because its kernels may run until the process ends.
bool Open() {
  static bool const open = (fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL)) != nullptr;
  return open;
}

// cuDNN on one device: its handle and the plans made so far.
class Cudnn {
 public:
  explicit Cudnn(CudaDevice& device) : stream_(device.stream()) {
    if (!Open()) {
      failure_ = "libcudnn.so.9 cannot be opened; install cuDNN 9 or add its folder to LD_LIBRARY_PATH";
      return;
    }
    cudnnStatus_t status = fe::detail::create_handle(&handle_);
    if (status == CUDNN_STATUS_SUCCESS) status = fe::detail::set_stream(handle_, stream_);
    if (status != CUDNN_STATUS_SUCCESS) failure_ = fmt::format("cuDNN does not start: status {}", int(status));
  }
  ~Cudnn() {
    plans_.clear();
    if (handle_) fe::detail::destroy_handle(handle_);
  }

  const std::string& failure() const { return failure_; }
  cudnnHandle_t handle() const { return handle_; }
  // Returns null if there is no plan yet and none can be made, because the stream is being recorded.
  Plan* PlanOf(const KernelCall& call, const SdpaSizes& z) {
    Key key = KeyOf(call, z);
    auto at = plans_.find(key);
    if (at != plans_.end()) return at->second.get();
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    WEFT_CUDA(cudaStreamIsCapturing(stream_, &capture));
    if (capture != cudaStreamCaptureStatusNone) return nullptr;
    return (plans_[key] = std::make_unique<Plan>(handle_, call, z)).get();
  }

 private:
  cudaStream_t stream_;
  cudnnHandle_t handle_ = nullptr;
  std::string failure_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

std::string Refuses(const KernelCall& call) {
  std::string reason = CudnnRefusesShape(call);
  if (!reason.empty() || !call.context->Has(DeviceKind::kCuda)) return reason;
  Cudnn& cudnn = DeviceOf(call).Kept<Cudnn>();
  if (!cudnn.failure().empty()) return cudnn.failure();
  CudnnParts parts(call);
  for (int64_t i = 0; i < parts.count() && reason.empty(); i++) {
    CudnnParts::Part part = parts[i];
    const Plan* plan = cudnn.PlanOf(part.call(), SdpaSizes(part.call()));
    reason = plan ? plan->failure : "its plan was not made before the recording";
  }
  return reason;
}

size_t Workspace(const KernelCall& call) {
  if (!call.context->Has(DeviceKind::kCuda)) return CudnnExpectedWorkspace(call);
  CudnnParts parts(call);
  size_t bytes = 0;
  for (int64_t i = 0; i < parts.count(); i++) {
    CudnnParts::Part part = parts[i];
    SdpaSizes z(part.call());
    int64_t own = DeviceOf(call).Kept<Cudnn>().PlanOf(part.call(), z)->workspace;
    bytes = std::max(bytes, CudnnScratchBytes(part.call(), z, own));
  }
  return bytes;
}

void Execute(const KernelCall& call, std::unordered_map<int64_t, void*> pointers) {
  SdpaSizes z(call);
  Cudnn& cudnn = DeviceOf(call).Kept<Cudnn>();
  char* lengths = static_cast<char*>(call.workspace) + CudnnLseBytes(call, z);
  if (HasLengths(call)) {
    auto* counts = reinterpret_cast<int32_t*>(lengths);  // [2, B]
    WriteSdpaLengths(call, counts);
    pointers[kQueries] = counts, pointers[kKeys] = counts + z.B;
  }
  void* scratch = lengths + CudnnLengthBytes(call, z);
  size_t space = call.workspace_bytes - CudnnLseBytes(call, z) - CudnnLengthBytes(call, z);
  Plan* plan = cudnn.PlanOf(call, z);
  fe::error_t status =
      plan->graph.execute(cudnn.handle(), pointers, std::align(kCudnnAlign, size_t(plan->workspace), scratch, space));
  if (status.is_bad())
    Fail(fmt::format("{} on CUDA: cuDNN says {}; kernels.attention=flash goes without it",
                     IsSdpaGrad(call) ? "sdpa_grad" : "sdpa", status.get_message()));
}

void Forward(const KernelCall& call) {
  Execute(call, {{kQ, call.in[0].data},
                 {kK, call.in[1].data},
                 {kV, call.in[2].data},
                 {kOut, call.out[0].data},
                 {kLse, call.out[1].data}});
}

void BackwardPart(const KernelCall& call) {
  PackSdpaLse(call, static_cast<float*>(call.workspace));
  Execute(call, {{kQ, call.in[0].data},
                 {kK, call.in[1].data},
                 {kV, call.in[2].data},
                 {kOut, call.in[3].data},
                 {kLse, call.workspace},
                 {kGradOut, call.in[5].data},
                 {kGradQ, call.out[0].data},
                 {kGradK, call.out[1].data},
                 {kGradV, call.out[2].data}});
}
void Backward(const KernelCall& call) {
  CudnnParts parts(call);
  for (int64_t i = 0; i < parts.count(); i++) BackwardPart(parts[i].call());
}

}  // namespace

constinit const SdpaKernels kCudnnSdpa{SdpaBackend::kCudnn, Refuses, Workspace, Forward, Backward};

std::string CudnnVersion() {
  if (!Open()) return "none";
  size_t version = fe::detail::get_backend_version();  // 91900 is 9.19.0
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace weft::cuda
