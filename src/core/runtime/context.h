// Context: what one rank owns that is not a value: who it is, its kernel tables, its worker threads.
//
// Ranks may be threads of one process, so nothing per rank is global; everything hangs off a Context.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/base/device_runtime.h"

namespace weft {

class KernelTable;
class ThreadPool;

// How kernels may compute where there is a choice.
struct Numerics {
  bool deterministic = true;  // the same bits on every run: no sums in an order that is left to chance
  bool tf32 = false;          // products of f32 may round their operands to TF32
  std::string attention;      // the backend preferred for attention; "": the order of the device's kernels
};

class Context {
 public:
  Context(int rank, int world_size, int threads = 1);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int threads() const { return threads_; }
  const Numerics& numerics() const { return numerics_; }
  void set_numerics(Numerics numerics) { numerics_ = std::move(numerics); }  // before anything is planned or run

  // The table of a device kind, to which backends add their rows.
  KernelTable& kernels(DeviceKind kind) const { return *tables_[size_t(kind)]; }

  // The devices that this rank has: the CPU always, others once their backend has added them.
  bool Has(DeviceKind kind) const { return runtimes_[size_t(kind)] != nullptr; }
  DeviceRuntime& device(DeviceKind kind) const;  // throws Error where the rank has none
  void AddDevice(std::unique_ptr<DeviceRuntime> runtime);

  // Calls fn(begin, end) over [0, n) in equal pieces, at most threads() and at most n / grain rounded up, on this
  // rank's threads; returns when all are done. The split depends only on n, grain and threads(): results do not change
  // from run to run.
  void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn) const;

 private:
  int rank_, world_size_, threads_;
  Numerics numerics_;
  std::array<std::unique_ptr<KernelTable>, kNumDeviceKinds> tables_;
  std::array<DeviceRuntime*, kNumDeviceKinds> runtimes_{};
  std::vector<std::unique_ptr<DeviceRuntime>> owned_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace weft
