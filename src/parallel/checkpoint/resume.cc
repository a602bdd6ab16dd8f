#include "parallel/checkpoint/resume.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "parallel/checkpoint/folder.h"
#include "parallel/checkpoint/gather.h"
#include "parallel/train/config_check.h"
#include "parallel/train/config_schema.h"
#include "parallel/train/config_value.h"
#include "parallel/train/suggest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

absl::Status Refuse(const Config& config, const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(PlaceOf(config, key) + what);
}

// Every model key that was saved and is another now, but those that say where the sizes and first values came from.
absl::Status CheckModel(const Config& config, const Checkpoint& checkpoint) {
  std::string path = (fs::path(checkpoint.folder()) / kConfigFile).string();
  absl::StatusOr<Config> saved = ParseConfig(checkpoint.ConfigYaml(), path, {});
  if (!saved.ok()) return absl::OkStatus();  // of another version, say: the tensors' shapes tell
  for (const Field& field : Schema()) {
    std::string key = field.key;
    if (!key.starts_with("model.") || key == "model.preset" || key == "model.init") continue;
    std::string was = PrintValue(field, *saved), now = PrintValue(field, config);
    if (was != now)
      return Refuse(config, key,
                    fmt::format("expected {}, as {} has it, got {}; on resume all keys but those of model may differ",
                                was, checkpoint.folder(), now));
  }
  return absl::OkStatus();
}

// Rank 0's view of a folder is everyone's.
std::vector<int64_t> SharedSteps(const std::string& dir, ProcessGroup& world) {
  std::vector<int64_t> steps = world.rank() == 0 ? StepsIn(dir) : std::vector<int64_t>();
  std::string bytes =
      GatherBytes(world, {reinterpret_cast<const char*>(steps.data()), steps.size() * sizeof(int64_t)})[0];
  steps.resize(bytes.size() / sizeof(int64_t));
  if (!steps.empty()) std::memcpy(steps.data(), bytes.data(), bytes.size());
  return steps;
}

// Opens a checkpoint and verifies all of it, a share on each rank.
absl::StatusOr<Checkpoint> OpenWhole(const std::string& folder, ProcessGroup& world) {
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  if (absl::Status s = FirstFault(world, checkpoint.status()); !s.ok()) return s;
  auto mine = int64_t(checkpoint->Crc());
  std::vector<int64_t> all(size_t(world.size()));
  world.AllGather(&mine, all.data(), 1, DType::kI64);
  absl::Status status = checkpoint->Verify(world.rank(), world.size());
  if (all[0] != mine)
    status =
        absl::DataLossError(fmt::format("{}: rank {} finds another manifest there than rank 0; give all ranks the "
                                        "same folder",
                                        folder, world.rank()));
  if (absl::Status s = FirstFault(world, status); !s.ok()) return s;
  return checkpoint;
}

absl::StatusOr<Resumed> FindNewest(const Config& config, ProcessGroup& world) {
  Resumed resumed;
  const std::string& dir = config.checkpoint.dir;
  for (int64_t step : SharedSteps(dir, world)) {
    absl::StatusOr<Checkpoint> checkpoint = OpenWhole(StepFolder(dir, step), world);
    if (checkpoint.ok()) {
      resumed.checkpoint = *std::move(checkpoint);
      return resumed;
    }
    resumed.notes.push_back(fmt::format("broken, passed over: {}", std::string(checkpoint.status().message())));
  }
  if (resumed.notes.empty()) {
    resumed.notes.push_back(fmt::format("no checkpoint in {}: the run starts from its beginning", dir));
    return resumed;
  }
  std::string faults;
  for (const std::string& note : resumed.notes) faults += "\n" + note;
  return Refuse(config, "checkpoint.resume",
                fmt::format("expected a whole checkpoint in {}, got broken ones alone; remove them to start afresh{}",
                            dir, faults));
}

absl::StatusOr<Resumed> FindNamed(const Config& config, ProcessGroup& world) {
  const std::string& path = config.checkpoint.resume;
  std::error_code error;
  std::string fault;
  if (!fs::exists(path, error)) {
    std::string nearest = Nearest(path, {"auto", "never"});
    fault = fmt::format("expected auto, never or the folder of a checkpoint, got {:?}, where there is nothing{}", path,
                        nearest.empty() ? "" : fmt::format("; did you mean {:?}?", nearest));
  } else if (std::vector<int64_t> steps = StepsIn(path); !steps.empty()) {
    fault = fmt::format("expected the folder of one checkpoint, got one that holds some; did you mean {:?}?",
                        StepFolder(path, steps[0]));
  }
  absl::Status mine = fault.empty() ? absl::OkStatus() : Refuse(config, "checkpoint.resume", fault);
  if (absl::Status s = FirstFault(world, mine); !s.ok()) return s;
  absl::StatusOr<Checkpoint> checkpoint = OpenWhole(path, world);
  if (!checkpoint.ok()) return Refuse(config, "checkpoint.resume", std::string(checkpoint.status().message()));
  return Resumed{*std::move(checkpoint), {}};
}

}  // namespace

absl::StatusOr<Resumed> FindResumed(const Config& config, ProcessGroup& world) {
  const std::string& from = config.checkpoint.resume;
  if (from == "never") return Resumed();
  absl::StatusOr<Resumed> resumed = from == "auto" ? FindNewest(config, world) : FindNamed(config, world);
  if (!resumed.ok() || !resumed->checkpoint) return resumed;
  if (absl::Status s = FirstFault(world, CheckModel(config, *resumed->checkpoint)); !s.ok()) return s;
  return resumed;
}

}  // namespace weft
