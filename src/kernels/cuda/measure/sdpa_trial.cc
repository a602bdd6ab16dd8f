#include "weft/kernels/cuda/measure/sdpa_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/functional/function_ref.h"
#include "weft/core/base/memory.h"
#include "weft/core/ops/sdpa.h"
#include "weft/core/runtime/timeline.h"

namespace weft::cuda {
namespace {

constexpr int kSamples = 5;  // of which the median counts
// A sample has as many launches as take about this long, because a single short one is measured badly.
constexpr double kSampleMicroseconds = 200;
constexpr int kMostLaunches = 20;
constexpr int kLse = 4;  // position of lse among the operands of the backward pass

// A call on operands of its own.
class Trial {
 public:
  Trial(const KernelCall& call, size_t workspace_bytes)
      : device_(call.context->device(DeviceKind::kCuda)),
        in_(call.in.begin(), call.in.end()),
        out_(call.out.begin(), call.out.end()),
        call_(call) {
    for (std::vector<TensorView>* views : {&in_, &out_})
      for (TensorView& view : *views) view.data = Hold(BytesOf(view));
    for (size_t i = 0; i < in_.size(); i++)
      in_[i].dtype == DType::kI64 ? FillIntegers(i) : Fill(in_[i], IsSdpaGrad(call) && i == kLse);
    call_.in = in_, call_.out = out_;
    call_.workspace_bytes = workspace_bytes;
    call_.workspace = Hold(workspace_bytes);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const KernelCall& call() const { return call_; }
  static size_t BytesOf(const TensorView& view) { return size_t(view.CapacityElements()) * SizeOf(view.dtype); }

 private:
  void* Hold(size_t bytes) { return buffers_.emplace_back(device_.Allocate(bytes))->data(); }

  // Equal values would compute faster than those of a run, because they switch fewer transistors.
  void Fill(const TensorView& view, bool is_lse) {
    if (view.dtype == DType::kBool) return device_.Fill(view.data, 1, BytesOf(view));
    // As if all scores were 0, so that probabilities stay below exp(1).
    double keys = std::log(double(std::max<int64_t>(in_[1].dim(1).extent, 1)));
    DispatchFloating(view.dtype, [&](auto zero) {
      using T = decltype(zero);
      std::array<T, 4096> values;
      std::minstd_rand random(1);
      std::uniform_real_distribution<> spread(-1, 1);
      for (T& value : values) value = T(Compute<T>(is_lse ? keys : spread(random)));
      Repeat(values.data(), sizeof(values), view);
    });
  }
  void FillIntegers(size_t operand) {
    SdpaOperands at(*call_.attrs, IsSdpaGrad(call_) ? 6 : 3);
    int64_t value = at.Integer(int(operand), *call_.attrs, in_[0].dim(1).global, in_[1].dim(1).global);
    const TensorView& view = in_[operand];
    std::vector<int64_t> values(size_t(view.CapacityElements()), value);
    device_.Copy(view.data, values.data(), BytesOf(view));
    device_.Synchronize();  // before `values` is released
  }
  // Fills the view's storage with copies of the bytes. Each copy doubles what is there.
  void Repeat(const void* bytes, size_t count, const TensorView& view) {
    size_t all = BytesOf(view), done = std::min(all, count);
    char* data = view.as<char>();
    device_.Copy(data, bytes, done);
    for (size_t more = 0; done < all; done += more) {
      more = std::min(done, all - done);
      device_.Copy(data + done, data, more);
    }
  }

  DeviceRuntime& device_;
  std::vector<BufferPtr> buffers_;
  std::vector<TensorView> in_, out_;
  KernelCall call_;
};

// Returns microseconds of the device from before the work that fn issues to after it.
double Elapsed(DeviceRuntime& device, absl::FunctionRef<void()> fn) {
  std::unique_ptr<Timeline> timeline = NewTimeline(device, 2);
  timeline->Mark();
  fn();
  timeline->Mark();
  std::vector<int64_t> times = timeline->Read();
  return std::max(double(times[1] - times[0]) / 1000, 0.1);
}

// Returns microseconds per run. `best` is the least of other backends.
double Time(const SdpaKernels& backend, const KernelCall& call, double best) {
  DeviceRuntime& device = call.context->device(DeviceKind::kCuda);
  backend.Run(call);  // loads kernels and libraries
  double once = Elapsed(device, [&] { backend.Run(call); });
  if (once > 2 * best) return once;
  int launches = std::clamp(int(kSampleMicroseconds / once), 1, kMostLaunches);
  auto issue = [&] {
    for (int i = 0; i < launches; i++) backend.Run(call);
  };
  // A step is a recording, in which launches cost less than one by one.
  std::unique_ptr<DeviceRuntime::Recording> recording = device.Record(issue);
  auto run = [&] { recording ? recording->Replay() : issue(); };
  run();
  std::array<double, kSamples> samples;
  for (double& sample : samples) sample = Elapsed(device, run);
  std::sort(samples.begin(), samples.end());
  return samples[kSamples / 2] / launches;
}

}  // namespace

std::vector<double> TimeSdpa(std::span<const SdpaKernels* const> backends, const KernelCall& call) {
  size_t workspace = SdpaRowsWorkspace(call), needed = 0;
  for (const SdpaKernels* backend : backends) workspace = std::max(workspace, backend->workspace(call));
  for (std::span<const TensorView> views : {call.in, call.out})
    for (const TensorView& view : views) needed += Trial::BytesOf(view);
  DeviceRuntime& device = call.context->device(DeviceKind::kCuda);
  if (needed + workspace > device.MemoryNow().free) return {};
  MemoryUse use("operands to time attention with");
  Trial trial(call, workspace);
  std::vector<double> times;
  double best = std::numeric_limits<double>::infinity();
  for (const SdpaKernels* backend : backends) {
    times.push_back(Time(*backend, trial.call(), best));
    best = std::min(best, times.back());
  }
  device.Synchronize();  // before the operands are released
  return times;
}

}  // namespace weft::cuda
