// weft train: runs one rank of a training run.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>

#include "launcher/rank.h"
#include "launcher/train_job.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/message.h"
#include "weft/train/config/run_name.h"
#include "weft/train/config/unused_keys.h"
#include "weft/train/infer/text_sampler.h"
#include "weft/train/loop/trainer.h"
#include "weft/train/preflight/agreement.h"
#include "weft/train/preflight/run_claim.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft train CONFIG [ranks=N] [key=value...]

Trains as the YAML file CONFIG says; any key can be overridden as path=value:

  weft train configs/quickstart.yaml train.steps=20
  weft train configs/quickstart.yaml ranks=4 mesh.dp=2 mesh.tp=2

The product of the mesh axes is the number of ranks (-1 fills an axis). ranks=N starts them on this host, with mpirun. Also
runs under mpirun and Slurm (srun), and with torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). SIGTERM or SIGINT to it or to any rank, or SIGUSR1 to mpirun, ends it after the step in progress, with a
checkpoint if checkpoint.dir or run is set. Exit code: 0 done or stopped, 2 bad usage or config, 1 failed.
)";

// Returns advice for a run that fails. Does not look for checkpoints, because the disk may be what failed.
std::string HowToGoOn(const Config& config) {
  if (config.checkpoint.dir.empty()) return "";
  return fmt::format("started again with {}, the run continues from the highest step in {}, if one was saved",
                     ResumeWords(config), config.checkpoint.dir);
}

// Reports an exception of this rank before the trainer is destroyed. Its destructor waits for a checkpoint in progress,
// which waits for other ranks.
absl::Status RunTrainer(const Config& config, const Dataset& data, RankMesh& rank, RankJob& mine) {
  Trainer trainer(
      config, data, *rank.context, *rank.mesh, rank.device,
      {.stop = &mine.stop, .activity = &mine.failures.activity(), .notices = &mine.notices, .times = &mine.times});
  try {
    absl::StatusOr<std::unique_ptr<StepSampler>> sampler =
        MakeTextSampler(config, data, *rank.context, *rank.mesh, rank.device);
    if (!sampler.ok()) return sampler.status();
    trainer.set_sampler(*std::move(sampler));
    return trainer.Run();
  } catch (const std::exception& e) {
    mine.failures.Fail(TextOf(e));
  }
}

int Train(RankJob& mine, const Words& words) {
  Bootstrap& bootstrap = mine.bootstrap;
  absl::StatusOr<TrainJob> job = LoadTrainJob(words, bootstrap.world_size());
  if (!AllOk(bootstrap, job.status())) return 2;
  const auto& [config, data] = *job;
  Ranks ranks = RanksOf(bootstrap);
  if (!AllOk(bootstrap, CheckSameRun(config, data, ranks))) return 2;
  if (!AllOk(bootstrap, CheckUsed(config))) return 2;
  absl::StatusOr<RunClaim> claim = RunClaim::Make(job->config, ranks);
  if (!AllOk(bootstrap, claim.status())) return 2;
  // Only rank 0 writes these outputs.
  absl::Status outputs = ranks.rank == 0 ? CheckOutputs(config) : absl::OkStatus();
  if (!AllOk(bootstrap, FirstFault(ranks, outputs))) return 2;
  for (const std::string& note : config.notes) mine.notices.Say(note);
  for (const std::string& note : UnusedKeys(config)) mine.notices.Say(note);
  if (!claim->note().empty()) mine.notices.Say(claim->note());
  for (const std::string& note : data.notes()) mine.notices.Say(note);

  mine.times.Note(StartPhase::kDataRead);
  std::optional<RankMesh> rank = MakeRankMesh(mine, config);
  if (!rank) return 2;
  mine.failures.set_advice(HowToGoOn(config));
  return ExitCode(mine, RunTrainer(config, data, *rank, mine));
}

}  // namespace

// If the reader of stdout or stderr ends, lines are lost, but the run must continue.
int TrainCommand(const Words& words) {
  std::signal(SIGPIPE, SIG_IGN);
  return RunOnRank(words, kHelp, Train, RankControl::kStop);
}

}  // namespace weft
