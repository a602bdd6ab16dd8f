#include "weft/train/checkpoint/resume.h"

#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "weft/core/host/suggest.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/whole.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/saved_config.h"
#include "weft/train/io/path_advice.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<Resumed> FindNewest(const Config& config, ProcessGroup& world) {
  const std::string& dir = config.checkpoint.dir;
  NewestWhole newest = FindNewestWhole(dir, RanksOf(world));
  Resumed resumed{.checkpoint = std::move(newest.checkpoint), .lines = newest.Faults()};
  if (!newest.later.empty()) resumed.notes.push_back(newest.later);
  if (resumed.checkpoint) return resumed;
  if (resumed.lines.empty()) {
    resumed.lines.push_back(fmt::format("no checkpoint in {}: the run starts from its beginning", dir));
    return resumed;
  }
  std::string faults;
  for (const std::string& fault : resumed.lines) faults += "\n" + fault;
  return RefuseKey(
      config, "checkpoint.resume",
      fmt::format("expected a whole checkpoint in {}, got only broken ones; remove them to start from the beginning{}",
                  dir, faults));
}

absl::StatusOr<Resumed> FindNamed(const Config& config, ProcessGroup& world) {
  const std::string& path = config.checkpoint.resume;
  std::error_code error;
  std::string fault;
  if (!fs::exists(path, error)) {
    std::string nearest = Nearest(path, {"auto", "never"});
    fault = fmt::format("expected auto, never or the folder of a checkpoint, got {:?}, where there is nothing{}", path,
                        nearest.empty() ? PathAdvice(path) : fmt::format("; did you mean {:?}?", nearest));
  } else if (!fs::is_directory(path, error)) {
    fault = fmt::format("expected auto, never or the folder of a checkpoint, got the file {:?}", path);
  } else if (std::vector<int64_t> steps = StepsIn(path); !steps.empty()) {
    fault = fmt::format("expected the folder of one checkpoint, got one that holds some; did you mean {:?}?",
                        StepFolder(path, steps[0]));
  }
  absl::Status mine = fault.empty() ? absl::OkStatus() : RefuseKey(config, "checkpoint.resume", fault);
  if (absl::Status s = FirstFault(world, mine); !s.ok()) return s;
  absl::StatusOr<Checkpoint> checkpoint = OpenWhole(path, RanksOf(world));
  if (!checkpoint.ok())
    return RefuseKey(config, "checkpoint.resume",
                     fmt::format("{}; copy the folder again, or give another checkpoint",
                                 std::string(checkpoint.status().message())));
  return Resumed{.checkpoint = *std::move(checkpoint)};
}

}  // namespace

absl::StatusOr<Config> ConfigOf(const Checkpoint& checkpoint, const std::vector<std::string>& overrides) {
  return ParseSavedConfig(checkpoint.ConfigYaml(), checkpoint.PathOf(kConfigFile), overrides);
}

// Compares all model keys except those that only say where the sizes and initial values came from.
absl::Status CheckModel(const Config& config, const Checkpoint& checkpoint, bool only_read) {
  absl::StatusOr<Config> saved = ConfigOf(checkpoint);
  if (!saved.ok()) return absl::OkStatus();  // for example of another version; Load compares the shapes of tensors
  for (const Field& field : Schema()) {
    std::string key = field.key;
    if (!key.starts_with("model.") || key == "model.preset" || key.starts_with("model.init")) continue;
    if (key == "model.vocab" && config.model.vocab == 0) continue;
    bool is_length = key == "model.context" || key == "model.source_context";
    if (only_read && (is_length || !saved->Given(key))) continue;
    std::string was = PrintValue(field, *saved), now = PrintValue(field, config);
    const char* unsaid = saved->Given(key) ? "" : " from before there was such a key";
    if (was != now)
      return RefuseKey(config, key,
                       fmt::format("expected {}, as {} has it{}, got {}; all keys but those of model may differ", was,
                                   checkpoint.folder(), unsaid, now));
  }
  return absl::OkStatus();
}

namespace {

// Whether a key affects the data or the learning rate of the remaining steps.
bool ShapesTheRest(std::string_view key) {
  return key.starts_with("data.") || key.starts_with("schedule.") || key == "train.steps";
}

// These keys may change, but if by mistake, the loss curve has a jump.
std::vector<std::string> NotesOfChanges(const Config& config, const Checkpoint& checkpoint) {
  std::vector<std::string> notes;
  absl::StatusOr<Config> saved = ConfigOf(checkpoint);
  if (!saved.ok()) return notes;
  auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  for (const Field& field : Schema()) {
    std::string was = PrintValue(field, *saved), now = PrintValue(field, config);
    if (ShapesTheRest(field.key) && was != now)
      notes.push_back(
          fmt::format("{}{} here, {} in {}", PlaceOf(config, field.key), shown(now), shown(was), checkpoint.folder()));
  }
  return notes;
}

}  // namespace

absl::StatusOr<Resumed> FindResumed(const Config& config, ProcessGroup& world) {
  const std::string& from = config.checkpoint.resume;
  if (from == "never") return Resumed();
  absl::StatusOr<Resumed> resumed = from == "auto" ? FindNewest(config, world) : FindNamed(config, world);
  if (!resumed.ok() || !resumed->checkpoint) return resumed;
  if (absl::Status s = FirstFault(world, CheckModel(config, *resumed->checkpoint)); !s.ok()) return s;
  for (std::string& note : NotesOfChanges(config, *resumed->checkpoint)) resumed->notes.push_back(std::move(note));
  return resumed;
}

}  // namespace weft
