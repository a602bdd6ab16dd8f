// weft train: one rank of a training run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "dist/bootstrap.h"
#include "dist/collectives.h"
#include "kernels/cpu/register.h"
#include "launcher/command.h"
#include "parallel/train/trainer.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft train CONFIG [key=value...]

Trains as the YAML file CONFIG says; any key can be overridden as path=value:

  weft train configs/quickstart.yaml train.steps=20
  mpirun -np 4 weft train configs/quickstart.yaml mesh.dp=2 mesh.tp=2

The product of the mesh axes is the number of ranks (-1 fills an axis). Also runs under Slurm (srun), and with
torchrun-style variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). Exit code: 0 done, 2 bad usage or
config, 1 failed.
)";

// Said once, by rank 0, and heard before any rank's exit ends the job.
int Refuse(Bootstrap& bootstrap, const absl::Status& status) {
  if (bootstrap.rank() == 0) fmt::print(stderr, "{}\n", std::string(status.message()));
  std::fflush(stderr);
  bootstrap.Barrier();
  return 2;
}

int ThreadsOf(const Config& config, const Bootstrap& bootstrap) {
  if (config.threads > 0) return int(config.threads);
  return std::max(1, int(std::thread::hardware_concurrency()) / bootstrap.local_size());
}

int Train(Bootstrap& bootstrap, const ConfigWords& words) {
  absl::StatusOr<Config> config = LoadConfig(words.path, words.overrides);
  if (!config.ok()) return Refuse(bootstrap, config.status());
  if (absl::Status s = Resolve(*config, bootstrap.world_size()); !s.ok()) return Refuse(bootstrap, s);
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  if (!data.ok()) return Refuse(bootstrap, data.status());
  if (absl::Status s = ResolveVocab(*config, data->tokenizer().vocab()); !s.ok()) return Refuse(bootstrap, s);

  Context context(bootstrap.rank(), bootstrap.world_size(), ThreadsOf(*config, bootstrap));
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  std::unique_ptr<GroupFactory> groups = MakeGroupFactory(bootstrap);
  MeshShape shape{{kDataAxis, kTensorAxis}, {int(config->mesh.dp), int(config->mesh.tp)}};
  DeviceMesh mesh(context, *groups, shape);
  mesh.set_timeout(std::chrono::milliseconds(int64_t(config->dist.timeout_s * 1000)));
  absl::Status status = Trainer(*config, *data, context, mesh).Run();
  if (status.ok()) return 0;
  fmt::print(stderr, "weft: rank {}: {}\n", bootstrap.rank(), std::string(status.message()));
  return 1;
}

}  // namespace

int TrainCommand(const Words& words) {
  ConfigWords split = SplitWords(words);
  if (AsksForHelp(words) || split.path.empty()) {
    fmt::print(AsksForHelp(words) ? stdout : stderr, "{}", kHelp);
    return AsksForHelp(words) ? 0 : 2;
  }
  std::unique_ptr<Bootstrap> bootstrap;
  try {
    bootstrap = Bootstrap::FromEnvironment();
    int code = Train(*bootstrap, split);
    if (code == 1) bootstrap->Abort(1);
    return code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "weft: rank {}: {}\n", bootstrap ? bootstrap->rank() : -1, e.what());
    std::fflush(stderr);
    if (bootstrap) bootstrap->Abort(1);
    return 1;
  }
}

}  // namespace weft
