// weft train: one rank of a training run.
#include "launcher/rank.h"
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

// What a rank throws by itself is said here: unwinding waits for a checkpoint in progress, and that for other ranks.
absl::Status RunTrainer(const Config& config, const Dataset& data, RankMesh& rank, RankJob& mine) {
  Trainer trainer(config, data, *rank.context, *rank.mesh, rank.device, &mine.stop);
  try {
    return trainer.Run();
  } catch (const std::exception& e) {
    mine.failures.Fail(e.what());
  }
}

int Train(RankJob& mine, const Words& words) {
  Bootstrap& bootstrap = mine.bootstrap;
  absl::StatusOr<Job> job = Load(words, bootstrap.world_size());
  if (!AllOk(bootstrap, job.status())) return 2;
  const auto& [config, data] = *job;
  if (!AllOk(bootstrap, CheckSameRun(config, data, RanksOf(bootstrap)))) return 2;

  std::optional<RankMesh> rank = MakeRankMesh(mine, config);
  if (!rank) return 2;
  return ExitCode(mine, RunTrainer(config, data, *rank, mine));
}

}  // namespace

int TrainCommand(const Words& words) { return RunOnRank(words, kHelp, Train, /*stops=*/true); }

}  // namespace weft
