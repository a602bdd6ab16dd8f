// Context: what one rank owns apart from values: its rank number, its kernel tables, its devices and its worker
// threads.
//
// Ranks may be threads of one process, so no state of a rank is global. All of it belongs to a Context.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/base/device_runtime.h"

namespace weft {

class BackendTimes;
class KernelTable;
class ThreadPool;

// How kernels may compute if there is a choice.
struct Numerics {
  bool deterministic = true;               // the same bits on every run: sums have a fixed order
  bool tf32 = false;                       // matrix products of f32 may round their operands to TF32
  bool combine = false;                    // products that share an operand run as one (core/passes/combine/combine.h)
  bool activation_grads = true;            // products take an activation's gradient with them (core/passes/fuse.h)
  int64_t logit_bytes = int64_t(1) << 30;  // of logits at a time, where the last product is fused with its loss
  std::string attention;                   // the preferred attention backend; "": in the order of the device's kernels
};

// An object of a library above this one that a Context owns for life, such as the connection to the other ranks.
class ContextService {
 public:
  virtual ~ContextService() = default;
};

struct EnvironmentOptions {
  int threads = 0;  // worker threads of the rank; 0: its share of the cores that ranks of its host may use
  Numerics numerics{};
  std::optional<DeviceKind> device{};  // none: the rank's own GPU if every rank has one, else the CPU
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // for ranks to come, and of their collectives
};

class Context {
 public:
  Context(int rank, int world_size, int threads = 1);
  // Joins the job that the environment describes: that of mpirun, of Slurm's or torchrun's variables, or a job of one
  // rank. Opens this rank's devices and registers their kernels and collectives, so that meshes can be made of the
  // context only. Collective. MPI may take its own arguments out of argv. Throws Error if ranks are missing or a
  // device that `options` names is. The library weft::weft defines it (api/environment/environment.cc).
  static Context FromEnvironment(int& argc, char**& argv, const EnvironmentOptions& options = {});
  static Context FromEnvironment(const EnvironmentOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int threads() const { return threads_; }
  const Numerics& numerics() const { return numerics_; }
  void set_numerics(Numerics numerics) { numerics_ = std::move(numerics); }  // before anything is planned or run

  // Returns the kernel table of a device kind. Backends add their rows to it.
  KernelTable& kernels(DeviceKind kind) const { return *tables_[size_t(kind)]; }

  // The times by which kernels with several backends choose one.
  BackendTimes& backend_times() const { return *backend_times_; }

  // The devices of this rank: always the CPU, and others once their backend has added them.
  bool Has(DeviceKind kind) const { return runtimes_[size_t(kind)] != nullptr; }
  DeviceRuntime& device(DeviceKind kind) const;  // throws Error if the rank has none
  void AddDevice(std::unique_ptr<DeviceRuntime> runtime);

  // The GPU if the rank has one, else the CPU: what a DefaultDeviceScope of a program for both takes.
  Device accelerator() const;
  // What FromEnvironment has left here; null for a context that was made otherwise.
  ContextService* service() const { return service_.get(); }

  // Calls fn(begin, end) on equal pieces of [0, n), on this rank's threads. There are at most threads() pieces and at
  // most n / grain, rounded up. Returns when all are done. The split depends only on n, grain and threads(), so results
  // do not change from run to run.
  void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn) const;

 private:
  using SetUp = absl::FunctionRef<void(Context&)>;
  Context(std::unique_ptr<ContextService> service, int rank, int world_size, int threads, SetUp set_up);

  int rank_, world_size_, threads_;
  Numerics numerics_;
  std::array<std::unique_ptr<KernelTable>, kNumDeviceKinds> tables_;
  std::unique_ptr<BackendTimes> backend_times_;
  std::array<DeviceRuntime*, kNumDeviceKinds> runtimes_{};
  std::vector<std::unique_ptr<DeviceRuntime>> owned_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ContextService> service_;  // uses the devices, so it goes first
};

}  // namespace weft
