// Prints the speed of the kernels that dominate a training step, on one thread. Usage: kernel_speed
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "weft/core/base/tensor.h"
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

Tensor Random(DType dtype, const Shape& shape) {
  static std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  std::vector<double> values(size_t(NumElements(shape)));
  for (double& v : values) v = normal(rng);
  return Tensor::FromDoubles(values, dtype, shape);
}

// Returns the seconds of the fastest call.
double Time(Op op, const Attrs& attrs, const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
  Context context(0, 1);
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  const KernelRow& row = context.kernels(DeviceKind::kCpu).Row(op);
  std::vector<TensorView> inputs, outputs;
  for (const Tensor& t : in) inputs.push_back(MakeView(t.data(), t.dtype(), t.shape()));
  for (const Tensor& t : out) outputs.push_back(MakeView(t.data(), t.dtype(), t.shape()));
  KernelCall call{&attrs, inputs, outputs, nullptr, 0, &context, nullptr};
  BufferPtr workspace = AllocateCpu(row.workspace ? row.workspace(call) : 0);
  call.workspace = workspace->data();
  call.workspace_bytes = workspace->bytes();
  double best = 1e9, total = 0;
  for (int i = 0; i < 5 || total < 0.3; i++) {
    auto start = std::chrono::steady_clock::now();
    row.run(call);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

void PrintEinsum(DType dtype, const char* eq, const Shape& a, const Shape& b, const Shape& y, double flops) {
  double s = Time(Op::kEinsum, {{"eq", eq}}, {Random(dtype, a), Random(dtype, b)}, {Tensor::Empty(dtype, y)});
  std::printf("einsum %-18s %-4s %8.1f us %7.1f GFLOP/s\n", eq, Name(dtype), s * 1e6, flops / s * 1e-9);
}

// Counts only the work that a causal problem needs, which is half of all scores.
void PrintSdpa(DType dtype, int64_t B, int64_t T, int64_t H, int64_t D) {
  Shape shape{B, T, H, D};
  DType wide = AccumulateType(dtype);
  Tensor q = Random(dtype, shape), k = Random(dtype, shape), v = Random(dtype, shape), dout = Random(dtype, shape);
  Tensor out = Tensor::Empty(dtype, shape), lse = Tensor::Empty(wide, {B, T, H});
  for (int causal : {0, 1}) {
    Attrs attrs{{"causal", causal}, {"causal_offset", 0}, {"scale", 0.0}};
    double flops = 4.0 * double(B * H * T * D) * (causal ? double(T + 1) / 2 : double(T));
    double s = Time(Op::kSdpa, attrs, {q, k, v}, {out, lse});
    double g = Time(Op::kSdpaGrad, attrs, {q, k, v, out, lse, dout}, {q.Clone(), k.Clone(), v.Clone()});
    std::printf("sdpa B=%ld T=%ld H=%ld D=%ld %s %s: forward %.1f us %.1f GFLOP/s, backward %.1f us %.1f GFLOP/s\n",
                long(B), long(T), long(H), long(D), causal ? "causal" : "full", Name(dtype), s * 1e6, flops / s * 1e-9,
                g * 1e6, 2.5 * flops / g * 1e-9);
  }
}

void PrintRope() {
  Tensor x = Random(DType::kF32, {6, 128, 4, 32});
  double s = Time(Op::kRope, {{"theta", 10000.0}, {"inverse", 0}, {"start", 0}}, {x}, {x.Clone()});
  std::printf("rope       f32 [6, 128, 4, 32] %.1f us\n", s * 1e6);
}

void PrintElementwise(Op op, size_t operands) {
  Shape shape{256, 1024};
  std::vector<Tensor> in;
  for (size_t i = 0; i < operands; i++) in.push_back(Random(DType::kF32, shape));
  double s = Time(op, {}, in, {Tensor::Empty(DType::kF32, shape)});
  std::printf("%-10s f32 %6.2f ns/element %6.1f GB/s\n", Name(op), s / (256 * 1024) * 1e9,
              double(operands + 1) * 4 * 256 * 1024 / s * 1e-9);
}

void PrintRows() {
  Shape shape{2048, 768}, rows{2048}, channels{768};
  Tensor x = Random(DType::kF32, shape), w = Random(DType::kF32, channels), dy = Random(DType::kF32, shape),
         r = Random(DType::kF32, rows);
  Tensor step = Tensor::Zeros(DType::kI64, {}), targets = Tensor::Zeros(DType::kI32, rows),
         y = Tensor::Empty(DType::kF32, shape);
  auto print = [](Op op, double s) {
    std::printf("%-20s f32 [2048, 768] %8.1f us %5.2f ns/element\n", Name(op), s * 1e6, s / (2048 * 768) * 1e9);
  };
  auto empty = [](const Shape& s) { return Tensor::Empty(DType::kF32, s); };
  Attrs eps{{"eps", 1e-5}}, loss{{"ignore_index", -100}, {"smoothing", 0.0}};
  print(Op::kLayerNorm, Time(Op::kLayerNorm, eps, {x, w, w}, {y, empty(rows), empty(rows)}));
  print(Op::kLayerNormGrad, Time(Op::kLayerNormGrad, eps, {x, w, r, r, dy}, {y, empty(channels), empty(channels)}));
  print(Op::kRmsNorm, Time(Op::kRmsNorm, eps, {x, w}, {y, empty(rows)}));
  print(Op::kRmsNormGrad, Time(Op::kRmsNormGrad, eps, {x, w, r, dy}, {y, empty(channels)}));
  print(Op::kCrossEntropy, Time(Op::kCrossEntropy, loss, {x, targets}, {empty(rows), empty(rows)}));
  print(Op::kCrossEntropyGrad, Time(Op::kCrossEntropyGrad, loss, {x, targets, r, r}, {y}));
  print(Op::kDropout, Time(Op::kDropout, {{"p", 0.1}, {"key", 7}}, {x, step, step}, {y}));
  print(Op::kReduceSum, Time(Op::kReduceSum, {{"dim", 0}}, {x}, {w}));
  print(Op::kSumOfSquares, Time(Op::kSumOfSquares, {}, {x}, {empty({})}));
  print(Op::kPermute, Time(Op::kPermute, {{"perm", Shape{1, 0}}}, {x}, {empty({768, 2048})}));
  Attrs adam{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  Tensor one = Tensor::Scalar(1, DType::kF32), t = Tensor::Scalar(1, DType::kI64), square = x.Clone();
  for (int64_t i = 0; i < square.num_elements(); i++) square.as<float>()[i] *= square.as<float>()[i];
  print(Op::kAdamW, Time(Op::kAdamW, adam, {x, dy, square, dy, one, one, t}, {y, empty(shape), empty(shape)}));
}

void Main() {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    PrintEinsum(dtype, "mk,kn->mn", {768, 128}, {128, 512}, {768, 512}, 2.0 * 768 * 128 * 512);
    PrintEinsum(dtype, "mk,kn->mn", {2048, 768}, {768, 3072}, {2048, 3072}, 2.0 * 2048 * 768 * 3072);
    PrintEinsum(dtype, "bthd,hdc->btc", {6, 128, 4, 32}, {4, 32, 128}, {6, 128, 128}, 2.0 * 768 * 128 * 128);
    PrintEinsum(dtype, "btc,btn->cn", {6, 128, 128}, {6, 128, 512}, {128, 512}, 2.0 * 768 * 128 * 512);
    PrintEinsum(dtype, "bthd,bshd->bhts", {6, 64, 4, 32}, {6, 64, 4, 32}, {6, 4, 64, 64}, 2.0 * 6 * 4 * 64 * 64 * 32);
  }
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    PrintSdpa(dtype, 6, 64, 4, 32);
    PrintSdpa(dtype, 2, 1024, 4, 64);
    PrintSdpa(dtype, 2, 512, 4, 128);
  }
  for (Op op : {Op::kExp, Op::kTanh, Op::kGelu, Op::kGeluD, Op::kSilu}) PrintElementwise(op, 1);
  PrintElementwise(Op::kAdd, 2);
  PrintRope();
  PrintRows();
}

}  // namespace
}  // namespace weft

int main() { weft::Main(); }
