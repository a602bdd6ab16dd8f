// weft train: one rank of a training run.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

#include "dist/bootstrap.h"
#include "dist/collectives.h"
#include "dist/failure_watch.h"
#include "dist/stop_agreement.h"
#include "kernels/common/cuda_library.h"
#include "kernels/cpu/register.h"
#include "launcher/command.h"
#include "parallel/train/agreement.h"
#include "parallel/train/config_check.h"
#include "parallel/train/initial_weights.h"
#include "parallel/train/setup.h"
#include "parallel/train/trainer.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft train CONFIG [key=value...]

Trains as the YAML file CONFIG says; any key can be overridden as path=value:

  weft train configs/quickstart.yaml train.steps=20
  mpirun -np 4 weft train configs/quickstart.yaml mesh.dp=2 mesh.tp=2

The product of the mesh axes is the number of ranks (-1 fills an axis). Also runs under Slurm (srun), and with
torchrun-style variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). SIGTERM or SIGINT to a rank, or
SIGUSR1 to mpirun, ends it after the step in progress, with a checkpoint where checkpoint.dir is set. Exit code: 0 done
or stopped, 2 bad usage or config, 1 failed.
)";

// Whether all ranks are well. If not, rank 0 says why, once, and is heard before any rank's exit ends the job: the
// first failure, with its rank unless all failed alike (a file may be missing on one host).
bool AllOk(Bootstrap& bootstrap, const absl::Status& mine) {
  std::vector<std::string> faults = bootstrap.AllGather(std::string(mine.message()));
  std::vector<std::string> hosts = bootstrap.AllGather(bootstrap.host());
  auto failed = [](const std::string& fault) { return !fault.empty(); };
  auto first = std::find_if(faults.begin(), faults.end(), failed);
  if (first == faults.end()) return true;
  if (bootstrap.rank() == 0) {
    bool alike = std::count(faults.begin(), faults.end(), *first) == std::ptrdiff_t(faults.size());
    if (!alike)
      fmt::print(stderr, "weft: rank {} (host {}) failed, as {} of {} ranks:\n", first - faults.begin(),
                 hosts[size_t(first - faults.begin())], std::count_if(faults.begin(), faults.end(), failed),
                 faults.size());
    fmt::print(stderr, "{}\n", *first);
  }
  std::fflush(stderr);
  bootstrap.Barrier();
  return false;
}

// What a rank makes of its own command line and files.
struct Job {
  Config config;
  Dataset data;
};
absl::StatusOr<Job> Load(const Words& words, int world_size) {
  absl::StatusOr<ConfigWords> split = SplitWords("train", words);
  if (!split.ok()) return split.status();
  absl::StatusOr<Config> config = LoadConfig(split->path, split->overrides);
  if (!config.ok()) return config.status();
  if (absl::Status s = Resolve(*config, world_size); !s.ok()) return s;
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  if (!data.ok()) return data.status();
  if (absl::Status s = ResolveVocab(*config, data->vocab()); !s.ok()) return s;
  // The trainer opens the weights; what is wrong with them is said here, before anything starts.
  if (!config->model.init.empty())
    if (absl::Status s = InitialWeights::Open(*config).status(); !s.ok()) return s;
  return Job{*std::move(config), *std::move(data)};
}

int ThreadsOf(const Config& config, const Bootstrap& bootstrap) {
  if (config.threads > 0) return int(config.threads);
  return std::max(1, int(std::thread::hardware_concurrency()) / bootstrap.local_size());
}

// auto is CUDA where this host has a GPU that a rank of its own can use. Looking for the driver first keeps runs on
// hosts without one as quick as a build without CUDA.
absl::StatusOr<DeviceKind> OpenDevice(const Config& config, const Bootstrap& bootstrap, Context& context) {
  bool one_rank = bootstrap.world_size() == 1, automatic = config.device == DeviceChoice::kAuto;
  bool wanted = config.device == DeviceChoice::kCuda || (automatic && one_rank && HasCudaDriver());
  if (!wanted) return DeviceKind::kCpu;
  if (!one_rank)
    return absl::InvalidArgumentError(PlaceOf(config, "device") +
                                      "cuda on more than one rank is not built yet; use device=cpu");
  absl::Status opened = OpenCuda(context, bootstrap.local_rank());
  if (opened.ok()) return DeviceKind::kCuda;
  if (!automatic) return opened;
  fmt::print(stderr, "note: device auto is the CPU: {}\n", std::string(opened.message()));
  return DeviceKind::kCpu;
}

// What a rank throws by itself is said here: unwinding waits for a checkpoint in progress, and that for other ranks.
absl::Status RunTrainer(const Config& config, const Dataset& data, Context& context, DeviceMesh& mesh,
                        DeviceKind device, StopGate& stop, FailureWatch& failures) {
  Trainer trainer(config, data, context, mesh, device, &stop);
  try {
    return trainer.Run();
  } catch (const std::exception& e) {
    failures.Fail(e.what());
  }
}

int Train(Bootstrap& bootstrap, FailureWatch& failures, StopGate& stop, const Words& words) {
  absl::StatusOr<Job> job = Load(words, bootstrap.world_size());
  if (!AllOk(bootstrap, job.status())) return 2;
  const auto& [config, data] = *job;
  auto gather = [&](std::string_view bytes) { return bootstrap.AllGather(bytes); };
  if (!AllOk(bootstrap, CheckSameRun(config, data, bootstrap.host(), gather))) return 2;

  Context context(bootstrap.rank(), bootstrap.world_size(), ThreadsOf(config, bootstrap));
  context.set_numerics(NumericsOf(config));
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  absl::StatusOr<DeviceKind> device = OpenDevice(config, bootstrap, context);
  if (!AllOk(bootstrap, device.status())) return 2;
  std::unique_ptr<GroupFactory> groups = MakeGroupFactory(bootstrap);
  DeviceMesh mesh(context, *groups, MeshOf(config));
  mesh.set_timeout(std::chrono::milliseconds(int64_t(config.dist.timeout_s * 1000)));
  failures.Watch(mesh);
  absl::Status status = RunTrainer(config, data, context, mesh, *device, stop, failures);
  if (status.ok()) return 0;
  if (absl::IsInvalidArgument(status)) return AllOk(bootstrap, status) ? 0 : 2;
  if (absl::IsAborted(status) || absl::IsResourceExhausted(status)) return AllOk(bootstrap, status) ? 0 : 1;
  failures.Fail(std::string(status.message()));  // of this rank alone: it ends the others
}

}  // namespace

int TrainCommand(const Words& words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", kHelp);
    return 0;
  }
  SignalCatcher signals({SIGTERM, SIGINT, SIGUSR1});
  std::unique_ptr<Bootstrap> bootstrap;
  try {
    bootstrap = Bootstrap::FromEnvironment();
  } catch (const std::exception& e) {
    fmt::print(stderr, "weft: {}\n", e.what());
    return 1;
  }
  SideChannel channel(*bootstrap);
  FailureWatch failures(channel, *bootstrap);
  StopAgreement stop(channel);
  try {
    channel.Open();
    stop.Follow(signals, [&](int rank) { failures.CheckLost(rank); });
    return Train(*bootstrap, failures, stop.gate(), words);
  } catch (const std::exception& e) {
    failures.Fail(e.what());
  }
}

}  // namespace weft
